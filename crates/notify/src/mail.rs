// SPDX-License-Identifier: Apache-2.0
//! Mail, by SMTP. Headers are made by `lettre`, of addresses that were looked at: nothing that a
//! check says can add one.

use crate::notice::Notice;
use crate::reach::{DELIVERY_MAX, DeliveryError, addresses};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use directory::{MailTls, ReceiverWay, SecretText};
use lettre::message::header::ContentType;
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Tokio1Executor};

fn form(error: impl ToString) -> DeliveryError {
    DeliveryError::Form { why: error.to_string() }
}

/// Sends a message on a way that is mail. Returns what the server said.
pub(crate) async fn send(way: &ReceiverWay, notice: &Notice) -> Result<String, DeliveryError> {
    let ReceiverWay::Email { address, from, smtp, tls, user, password, ca } = way else {
        return Err(form("this is no receiver of mail"));
    };
    let (host, port) = smtp.rsplit_once(':').ok_or_else(|| form("no port of a mail server"))?;
    let host = host.trim_matches(['[', ']']);
    let message = message((address, from), notice)?;
    addresses(smtp).await?;
    let failed = |error: &dyn std::error::Error| DeliveryError::Mail {
        to: smtp.clone(),
        why: without(password.as_ref(), &said(error)),
    };
    let tls = match tls {
        MailTls::None => Tls::None,
        MailTls::Starttls => Tls::Required(parameters(host, ca.as_deref())?),
        MailTls::Tls => Tls::Wrapper(parameters(host, ca.as_deref())?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
        .port(port.parse().map_err(form)?)
        .timeout(Some(DELIVERY_MAX))
        .hello_name(ClientId::Domain("gabion".to_owned()))
        .tls(tls);
    if let (Some(user), Some(password)) = (user, password) {
        builder = builder
            .credentials(Credentials::new(user.clone(), password.0.clone()))
            .authentication(vec![Mechanism::Plain, Mechanism::Login]);
    }
    let transport: AsyncSmtpTransport<Tokio1Executor> = builder.build();
    let answer = transport.send(message).await.map_err(|error| failed(&error))?;
    let first: Option<&str> = answer.message().next();
    let answer = format!("{} {}", answer.code(), first.unwrap_or_default());
    Ok(without(password.as_ref(), answer.trim_end()))
}

fn parameters(host: &str, ca: Option<&str>) -> Result<TlsParameters, DeliveryError> {
    let trust = |why: lettre::transport::smtp::Error| DeliveryError::Trust { why: said(&why) };
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = ca {
        let certificate = Certificate::from_pem(pem.as_bytes()).map_err(trust)?;
        let builder_of_one = builder.certificate_store(CertificateStore::None);
        builder = builder_of_one.add_root_certificate(certificate);
    }
    builder.build_rustls().map_err(trust)
}

fn message((to, from): (&str, &str), notice: &Notice) -> Result<Message, DeliveryError> {
    let mailbox = |address: &str| -> Result<Mailbox, DeliveryError> {
        Ok(Mailbox::new(None, address.parse::<Address>().map_err(form)?))
    };
    let from = mailbox(from)?;
    // What comes twice is one message for whoever reads it.
    let id = format!("<{}@{}>", notice.data.id, from.email.domain());
    Message::builder()
        .from(from)
        .to(mailbox(to)?)
        .subject(notice.subject())
        .message_id(Some(id))
        .header(ContentType::TEXT_PLAIN)
        .body(notice.text())
        .map_err(form)
}

/// An error with what caused it, in one line.
fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// A text of the server's without the password, should it repeat it.
fn without(password: Option<&SecretText>, text: &str) -> String {
    match password {
        None => text.to_owned(),
        Some(password) => text
            .replace(&password.0, "(not shown)")
            .replace(&STANDARD.encode(&password.0), "(not shown)"),
    }
}
