// SPDX-License-Identifier: Apache-2.0
//! What the member of the directory on this host proves itself with, where members want to know who
//! asks: a file that etcd reads again for each connection.

use crate::error::ControlError;
use crate::member_file::MemberFile;
use crate::supervise::EtcdProof;
use keys::{Authority, CA_FILE};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// In the folder of what a member keeps: its certificate and its key.
const PROOF_FILE: &str = "member.pem";

/// Keeps the file.
pub struct MemberProof {
    authority: Authority,
    ca: PathBuf,
    address: IpAddr,
    path: PathBuf,
    /// When it was written last, or tried to be.
    made: SystemTime,
}

impl MemberProof {
    /// That of the member on the host whose file this is. The cluster's CA is in the folder `keys`.
    pub fn open(file: &MemberFile, keys: &Path) -> Result<Self, ControlError> {
        let (authority, made) = (Authority::open(keys)?, SystemTime::now());
        let (ca, path) = (keys.join(CA_FILE), file.data.join(PROOF_FILE));
        let proof = Self { authority, ca, address: file.address, path, made };
        proof.write(made)?;
        Ok(proof)
    }

    /// What etcd is told of it.
    pub fn files(&self) -> EtcdProof {
        EtcdProof { key: self.path.clone(), ca: self.ca.clone() }
    }

    /// Writes another one where that is due.
    pub fn renew(&mut self) {
        self.renew_at(SystemTime::now());
    }

    fn renew_at(&mut self, now: SystemTime) {
        if !keys::is_due(self.made, now) {
            return;
        }
        // Also where it fails: the one of before is one for a long time yet, and the next start of
        // the daemon tries it again.
        self.made = now;
        if let Err(error) = self.write(now) {
            tracing::error!(
                error = format!("{error:#}"),
                "the certificate of this host's member of the directory stays the old one"
            );
        }
    }

    fn write(&self, now: SystemTime) -> Result<(), ControlError> {
        let made = self.authority.directory_member(self.address, now)?;
        let wrap = |source| ControlError::MemberFile { path: self.path.clone(), source };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(wrap)?;
        let text = made.certificate + &made.key;
        keys::write_durably(&self.path, text.as_bytes(), 0o600).map_err(wrap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member_file::PORT_DEFAULT;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    #[test]
    fn the_file_is_for_its_user_alone_and_written_again_in_time() {
        let folder = std::env::temp_dir().join(format!("gabion-proof-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let address = "10.0.0.1".parse().expect("an address");
        let file = MemberFile::new("host1", address, PORT_DEFAULT, &folder.join("data"));
        assert!(MemberProof::open(&file, &folder).is_err(), "there is no CA");
        Authority::create(&folder).expect("an authority");
        let mut proof = MemberProof::open(&file, &folder).expect("a file");
        let path = proof.files().key;
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = || fs::read_to_string(&path).expect("a file");
        let (first, begun) = (text(), SystemTime::now());
        assert!(first.contains("BEGIN CERTIFICATE") && first.contains("PRIVATE KEY"), "{first}");
        let after = |days: u64| begun + Duration::from_secs(days * 86_400);
        proof.renew_at(after(1));
        assert_eq!(text(), first);
        proof.renew_at(after(31));
        let second = text();
        assert_ne!(second, first);
        proof.renew_at(after(32));
        assert_eq!(text(), second);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
