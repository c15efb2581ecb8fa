// SPDX-License-Identifier: Apache-2.0
//! One message on its way, whichever it is. It arrives within [`DELIVERY_MAX`], or it is said why
//! not.

use crate::notice::Notice;
use crate::reach::{DELIVERY_MAX, DeliveryError};
use crate::{mail, syslog, webhook};
use directory::{NoticeReceiver, ReceiverWay};

/// Sends a message, and waits until the receiver has it. Returns what it said.
///
/// # Errors
/// [`DeliveryError`].
pub(crate) async fn deliver(
    receiver: &NoticeReceiver,
    notice: &Notice,
) -> Result<String, DeliveryError> {
    let sent = async {
        match &receiver.way {
            ReceiverWay::Webhook { url, secret, ca } => {
                webhook::post((&url.0, ca.as_deref()), secret.as_ref(), notice).await
            }
            ReceiverWay::Email { .. } => mail::send(&receiver.way, notice).await,
            ReceiverWay::Syslog { address, tcp } => {
                syslog::send(address.as_deref(), *tcp, notice).await
            }
        }
    };
    tokio::time::timeout(DELIVERY_MAX, sent).await.unwrap_or(Err(DeliveryError::Late))
}
