// SPDX-License-Identifier: Apache-2.0
//! How much of a device's rated writes is used up, as SMART tells it (`smartctl` of smartmontools).

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a device that may be busy or broken.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time between two looks whether it has answered.
const LOOK: Duration = Duration::from_millis(20);
/// ATA attributes whose value falls from 100 while a flash device wears out.
const ATA_WEAR: [u64; 4] = [
    177, // wear levelling count
    202, // percentage of the rated lifetime used
    231, // life left
    233, // media wear-out indicator
];

/// Percent of its writes that the block device at `path` has used up. `None` where nothing tells: a
/// file, a virtual or magnetic disk, no smartctl, no permission.
pub fn percent(path: &str) -> Option<u8> {
    ring::block_device(Path::new(path))?;
    let mut smartctl = Command::new("smartctl");
    let asked = smartctl.args(["--json", "--attributes", path]);
    let mut running =
        asked.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let begun = Instant::now();
    // The answer is a few KiB, which fit into the pipe. So nothing needs to be read meanwhile.
    while running.try_wait().ok()?.is_none() {
        if begun.elapsed() > PATIENCE {
            let _ = running.kill();
            let _ = running.wait();
            return None;
        }
        std::thread::sleep(LOOK);
    }
    used(&running.wait_with_output().ok()?.stdout)
}

/// The percentage in an answer of smartctl.
fn used(answer: &[u8]) -> Option<u8> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let health = &answer["nvme_smart_health_information_log"];
    if let Some(used) = health["percentage_used"].as_u64() {
        return Some(u8::try_from(used).unwrap_or(u8::MAX));
    }
    let table = answer["ata_smart_attributes"]["table"].as_array()?;
    let of = |id: u64| table.iter().find(|line| line["id"].as_u64() == Some(id));
    let left = ATA_WEAR.iter().find_map(|id| of(*id)?["value"].as_u64())?;
    u8::try_from(100_u64.saturating_sub(left)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_what_the_device_says() {
        let of = |text: &str| used(text.as_bytes());
        let nvme = r#"{"nvme_smart_health_information_log":{"percentage_used":12}}"#;
        let ata =
            r#"{"ata_smart_attributes":{"table":[{"id":9,"value":99},{"id":233,"value":83}]}}"#;
        let disk = r#"{"ata_smart_attributes":{"table":[{"id":9,"value":99}]}}"#;
        assert_eq!((of(nvme), of(ata), of(disk)), (Some(12), Some(17), None));
        let worn = nvme.replace("12", "300");
        assert_eq!((of(&worn), of("{}"), of("no JSON")), (Some(255), None, None));
    }

    #[test]
    fn a_file_does_not_wear() {
        assert_eq!(percent("/proc/self/exe"), None);
    }
}
