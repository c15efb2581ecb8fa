// SPDX-License-Identifier: Apache-2.0
//! Syslog: RFC 5424 over UDP (RFC 5426) or TCP (RFC 6587, with the length before each message); the
//! syslog of this machine in the older form that its socket takes.

use crate::notice::Notice;
use crate::reach::{DeliveryError, addresses, dial};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tokio::io::AsyncWriteExt;
use tokio::net::{UdpSocket, UnixDatagram};

/// Daemons.
const FACILITY: u8 = 3;
/// Largest message: what every receiver takes that is not very old (RFC 5426 asks for 2048).
const MESSAGE_BYTES_MAX: usize = 2000;
/// Largest value of a field.
const FIELD_BYTES_MAX: usize = 255;
/// The socket of this machine's syslog.
const LOCAL: &str = "/dev/log";
/// By which the fields are known: 32473 is what RFC 5612 keeps for documentation and private use.
const STRUCTURE: &str = "gabion@32473";

/// Sends a message. Over UDP nobody says whether it arrived.
pub(crate) async fn send(
    address: Option<&str>,
    tcp: bool,
    notice: &Notice,
) -> Result<String, DeliveryError> {
    let Some(to) = address else { return send_local(notice).await };
    let failed = |source: io::Error| DeliveryError::Connect { to: to.to_owned(), source };
    let message = message(notice);
    if tcp {
        let mut stream = dial(to).await?;
        let frame = format!("{} {message}", message.len());
        stream.write_all(frame.as_bytes()).await.map_err(failed)?;
        stream.shutdown().await.map_err(failed)?;
        return Ok("sent".to_owned());
    }
    let first = addresses(to).await?.into_iter().next();
    let first = first.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    let any: IpAddr = match first {
        std::net::SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        std::net::SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.map_err(failed)?;
    socket.connect(first).await.map_err(failed)?;
    socket.send(message.as_bytes()).await.map_err(failed)?;
    Ok("sent; nobody says whether it arrived".to_owned())
}

async fn send_local(notice: &Notice) -> Result<String, DeliveryError> {
    let failed = |source: io::Error| DeliveryError::Connect { to: LOCAL.to_owned(), source };
    let socket = UnixDatagram::unbound().map_err(failed)?;
    let message = format!("<{}>gabion: {}", priority(notice), line(notice));
    socket.send_to(cut(&message, MESSAGE_BYTES_MAX).as_bytes(), LOCAL).await.map_err(failed)?;
    Ok("sent".to_owned())
}

/// Facility and severity: error, warning, notice.
fn priority(notice: &Notice) -> u8 {
    let severity = match notice.data.state {
        "red" => 3,
        "yellow" => 4,
        _ => 5,
    };
    FACILITY * 8 + severity
}

/// What a line says beside the fields: what is wrong, and the command that mends it.
fn line(notice: &Notice) -> String {
    let next = notice.data.mend.first().map(|command| format!("; next: {command}"));
    let said = format!("{}{}", notice.subject(), next.unwrap_or_default());
    said.chars().map(|it| if it.is_control() { ' ' } else { it }).collect()
}

/// A message of RFC 5424.
fn message(notice: &Notice) -> String {
    let data = &notice.data;
    let mut fields = String::new();
    for (name, value) in [
        ("id", data.id.as_str()),
        ("cluster", &data.cluster),
        ("check", &data.check),
        ("state", data.state),
        ("before", data.before),
        ("since", &data.since),
    ] {
        // Writing to a string does not fail.
        let _ = write!(fields, " {name}=\"{}\"", escaped(value));
    }
    let host = header(&data.host);
    let text = format!(
        "<{}>1 {} {host} gabion - health [{STRUCTURE}{fields}] {}",
        priority(notice),
        notice.timestamp,
        line(notice)
    );
    cut(&text, MESSAGE_BYTES_MAX).to_owned()
}

/// A word of a header: ASCII that can be seen.
fn header(text: &str) -> String {
    let word: String = text.chars().filter(char::is_ascii_graphic).take(FIELD_BYTES_MAX).collect();
    if word.is_empty() { "-".to_owned() } else { word }
}

/// A value between quotes.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for one in cut(value, FIELD_BYTES_MAX).chars() {
        match one {
            '"' | '\\' | ']' => text.extend(['\\', one]),
            one if one.is_control() => text.push(' '),
            one => text.push(one),
        }
    }
    text
}

/// No more than so many bytes of a text.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::ClusterName;
    use directory::{NoticeLevel, NoticeReceiver, ReceiverWay};

    fn notice(host: &str, summary: &str) -> Notice {
        let name = ClusterName { name: "a\"]\n".to_owned(), host: host.to_owned(), link: None };
        let receiver = NoticeReceiver {
            name: "log".to_owned(),
            created: 1,
            way: ReceiverWay::Syslog { address: None, tcp: false },
            from_state: NoticeLevel::Yellow,
            groups: Vec::new(),
            remind_seconds: None,
            told: Vec::new(),
            trouble: None,
        };
        let mut notice = Notice::test(&name, &receiver, 1_764_410_400, 7);
        notice.data.summary = summary.to_owned();
        notice.data.mend = vec!["gabion host start host3".to_owned()];
        notice
    }

    #[test]
    fn a_message_has_one_form_whatever_is_in_it() {
        let text = message(&notice("host1", "all\nis <well>"));
        let begin =
            "<29>1 2025-11-29T10:00:00Z host1 gabion - health [gabion@32473 id=\"a\\\"\\] .log";
        assert!(text.starts_with(begin), "{text}");
        assert!(text.ends_with("; next: gabion host start host3"), "{text}");
        assert!(!text.contains('\n'), "{text:?}");
        assert!(message(&notice("a b\r\n", "")).contains(" ab gabion - "));
        assert!(message(&notice("", &"\u{e9}".repeat(3000))).len() <= MESSAGE_BYTES_MAX);
    }

    #[test]
    fn a_text_is_cut_between_its_letters() {
        assert_eq!(cut("a\u{e9}", 2), "a");
        assert_eq!(cut("ab", 5), "ab");
    }
}
