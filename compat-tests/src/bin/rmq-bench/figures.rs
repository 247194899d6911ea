//! What a process has cost so far, from `/proc`.

use std::fs;

/// CPU and memory of a process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time in seconds.
    pub cpu: f64,
    /// Anonymous memory in KiB: what the process allocated, without mapped files.
    pub anonymous: f64,
    /// Resident memory in KiB, mapped files included.
    pub resident: f64,
}

impl Usage {
    /// Reads it; zeroes when the process is gone.
    pub fn of(pid: u32) -> Usage {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The command name may hold blanks: fields are counted after its closing parenthesis.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let kib = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse().ok()).unwrap_or_default()
        };
        Usage { cpu: (ticks(11) + ticks(12)) / per_second, anonymous: kib("RssAnon:"), resident: kib("VmRSS:") }
    }
}

/// The median of some figures; 0 of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
