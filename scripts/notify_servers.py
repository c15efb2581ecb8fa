#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Receivers for scripts/notify.sh: a webhook, a mail server and a syslog. What each got is in a file of JSON lines.

usage: notify_servers.py FOLDER hook|safe|mail|syslog [PORT]

The port that it listens on is in FOLDER/<name>.port. FOLDER/secret has the secret of the webhook, FOLDER/smtp-user and
FOLDER/smtp-password who may send mail; FOLDER/mail.pem and FOLDER/mail.key are what the mail server proves itself with,
and `safe`, a webhook with TLS.
"""
import asyncio
import base64
import hashlib
import hmac
import json
import pathlib
import ssl
import sys
import time

folder = pathlib.Path(sys.argv[1])
name = sys.argv[2]
wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 0


def keep(what):
    with open(folder / f"{name}.jsonl", "a") as to:
        to.write(json.dumps(what) + "\n")


def listens(port):
    part = folder / f"{name}.port.part"
    part.write_text(str(port))
    part.rename(folder / f"{name}.port")


def proof():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "mail.pem", folder / "mail.key")
    return context


async def hook(reader, writer):
    """One request of HTTP. It is well where its signature is; else the answer is 401."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:]) if key}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        secret = (folder / "secret").read_text().strip()
        key = base64.b64decode(secret.removeprefix("whsec_"))
        at, ident = fields["webhook-timestamp"], fields["webhook-id"]
        signed = f"{ident}.{at}.".encode() + body
        right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        is_right = hmac.compare_digest(right, fields.get("webhook-signature", "")) and abs(time.time() - int(at)) < 300
        said = json.loads(body)
        assert said["data"]["id"] == ident
        keep({"signed": is_right, "line": head[0], **said})
        status = "204 No Content" if is_right else "401 Unauthorized"
        writer.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
    finally:
        writer.close()


class Mail:
    """One session of SMTP: STARTTLS, then AUTH, then mail."""

    def __init__(self, reader, writer):
        self.reader, self.writer, self.is_safe, self.is_known = reader, writer, False, False

    async def say(self, line):
        self.writer.write(line.encode() + b"\r\n")
        await self.writer.drain()

    def may(self, text):
        user, password = ((folder / f"smtp-{part}").read_text().strip() for part in ("user", "password"))
        return base64.b64decode(text) == f"\0{user}\0{password}".encode()

    async def serve(self):
        await self.say("220 test ESMTP")
        rcpt, sender = [], ""
        while line := (await self.reader.readline()).decode().rstrip("\r\n"):
            word = line.split(" ")[0].upper()
            if word == "EHLO":
                await self.say("250-test")
                await self.say("250 AUTH PLAIN" if self.is_safe else "250 STARTTLS")
            elif word == "STARTTLS":
                await self.say("220 go on")
                await self.writer.start_tls(proof())
                self.is_safe = True
            elif word == "AUTH":
                self.is_known = self.is_safe and self.may(line.split(" ")[2])
                await self.say("235 welcome" if self.is_known else f"535 nobody is known by {line}")
            elif word == "MAIL" and not self.is_known:
                await self.say("530 sign in first")
            elif word == "MAIL":
                sender, rcpt = line, []
                await self.say("250 ok")
            elif word == "RCPT":
                rcpt.append(line)
                await self.say("250 ok")
            elif word == "DATA":
                await self.say("354 go on")
                text = (await self.reader.readuntil(b"\r\n.\r\n")).decode()
                keep({"from": sender, "to": rcpt, "safe": self.is_safe, "text": text})
                await self.say("250 kept")
            elif word == "QUIT":
                await self.say("221 bye")
                break
            else:
                await self.say("502 what?")


async def mail(reader, writer):
    try:
        await Mail(reader, writer).serve()
    except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError) as error:
        print(f"mail: {error}", file=sys.stderr)
    finally:
        writer.close()


class Syslog(asyncio.DatagramProtocol):
    def datagram_received(self, data, addr):
        keep({"text": data.decode()})


async def main():
    if name == "syslog":
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Syslog, ("127.0.0.1", wanted))
        listens(transport.get_extra_info("sockname")[1])
        await asyncio.Event().wait()
    safe = proof() if name == "safe" else None
    server = await asyncio.start_server(mail if name == "mail" else hook, "127.0.0.1", wanted, ssl=safe)
    listens(server.sockets[0].getsockname()[1])
    await server.serve_forever()


asyncio.run(main())
