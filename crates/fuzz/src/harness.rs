// SPDX-License-Identifier: Apache-2.0
//! Runs a target: its corpus, then fresh inputs for a bounded time; keeps what fails.

use crate::derive;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An input that runs for so long hangs: the slowest takes a second on a loaded machine.
pub const HANG_AFTER: Duration = Duration::from_secs(60);
/// How long fresh inputs run in `cargo test`, at most: all targets together stay below 45 s.
const TEST_TIME: Duration = Duration::from_millis(2500);
/// Seconds per target instead; what fails then goes into the corpus (`./dev fuzz`).
const SECONDS: &str = "FUZZ_SECONDS";
/// Set: every input is in a file of its own while it runs. An aborted process (no memory, no
/// stack) cannot tell what it ran; slow.
const TRACE: &str = "FUZZ_TRACE";
/// Bytes of memory that any decoder may take, whatever the length of its input.
const ALLOCATED_MIN: u64 = 64 << 10;
/// Bytes of memory that a decoder may take for each byte of input: a list's smallest item takes 4
/// bytes and becomes a record of texts.
const ALLOCATED_PER_BYTE: u64 = 48;

/// Something that reads bytes from outside.
pub struct FuzzTarget {
    /// Its name, and that of its folder in the corpus.
    pub name: &'static str,
    /// Fresh inputs in `cargo test`, at most.
    pub inputs: usize,
    /// Valid inputs, to be changed; the corpus is added to them.
    pub seeds: Vec<Vec<u8>>,
    /// Where failing inputs of `cargo test` go: `env!("CARGO_TARGET_TMPDIR")`.
    pub keep: &'static str,
    /// Panics where a promise is broken.
    pub run: fn(&[u8]),
}

/// Runs `decode` on `length` bytes of input; panics where it takes much more memory than that.
pub fn bounded<T>(length: usize, decode: impl FnOnce() -> T) -> T {
    within(ALLOCATED_MIN + ALLOCATED_PER_BYTE * length as u64, decode)
}

/// Runs `work`; panics where it holds more than `limit` bytes of memory at one time.
pub fn within<T>(limit: u64, work: impl FnOnce() -> T) -> T {
    let mut result = None;
    // The counter does not survive an unwinding stack.
    let taken = allocation_counter::measure(|| {
        result = Some(catch_unwind(AssertUnwindSafe(work)));
    });
    match result {
        Some(Ok(value)) => {
            let most = taken.bytes_max;
            assert!(most <= limit, "{most} bytes allocated, {limit} allowed");
            value
        }
        Some(Err(panic)) => resume_unwind(panic),
        None => unreachable!("the closure ran"),
    }
}

/// The input that runs now, for the watchdog.
type Running = Arc<Mutex<Option<(Instant, Vec<u8>)>>>;

/// One run of a target.
pub struct FuzzSession {
    target: FuzzTarget,
    inputs: usize,
    time: Duration,
    began: Instant,
    /// Folder of inputs that failed.
    keep: PathBuf,
    /// See [`TRACE`].
    traces: bool,
    /// The file of the shortest failing input so far.
    kept: Mutex<Option<(PathBuf, usize)>>,
    count: Mutex<u64>,
    running: Running,
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FuzzSession {
    fn run(&self, input: &[u8]) {
        *lock(&self.running) = Some((Instant::now(), input.to_vec()));
        let trace = Path::new(self.target.keep).join(format!("running-{}", self.target.name));
        if self.traces {
            std::fs::write(&trace, input).expect("the folder can be written");
        }
        *lock(&self.count) += 1;
        let result = catch_unwind(|| (self.target.run)(input));
        *lock(&self.running) = None;
        if self.traces {
            // Nothing depends on it.
            let _ = std::fs::remove_file(&trace);
        }
        if let Err(panic) = result {
            self.keep(input);
            resume_unwind(panic);
        }
    }

    /// Keeps a failing input, in the place of a longer one: shrinking tries many.
    fn keep(&self, input: &[u8]) {
        let mut kept = lock(&self.kept);
        if kept.as_ref().is_some_and(|(_, length)| *length <= input.len()) {
            return;
        }
        if let Some((old, _)) = kept.take() {
            let _ = std::fs::remove_file(old);
        }
        *kept = Some((keep(&self.keep, self.target.name, input), input.len()));
    }
}

fn keep(folder: &Path, name: &str, input: &[u8]) -> PathBuf {
    let hash = input.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    });
    let path = folder.join(format!("{name}-{hash:016x}"));
    match std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, input)) {
        Ok(()) => eprintln!("fuzz: {name} fails on {}", path.display()),
        Err(error) => eprintln!("fuzz: {name} fails, and {} is not kept: {error}", path.display()),
    }
    path
}

/// Ends the process where an input hangs; ends itself with the last clone of `running`.
fn watch(name: &'static str, folder: PathBuf, running: &Running) {
    let running = Arc::downgrade(running);
    std::thread::spawn(move || {
        while let Some(running) = running.upgrade() {
            let hanging = lock(&running).clone().filter(|(at, _)| at.elapsed() > HANG_AFTER);
            if let Some((_, input)) = hanging {
                let _ = keep(&folder, name, &input);
                eprintln!("fuzz: {name} hangs");
                std::process::abort();
            }
            drop(running);
            std::thread::park_timeout(Duration::from_secs(1));
        }
    });
}

impl FuzzSession {
    /// Runs the corpus and the seeds of a target; fresh inputs are to follow.
    ///
    /// Panics where one fails. Use [`crate::targets`].
    #[must_use]
    pub fn open(mut target: FuzzTarget) -> Self {
        let name = target.name;
        let folder = corpus(name);
        let seconds = std::env::var(SECONDS).ok().map(|text| text.parse().expect("seconds"));
        let keep = if seconds.is_some() { folder.clone() } else { PathBuf::from(target.keep) };
        if seconds.is_some() {
            std::fs::create_dir_all(&keep).expect("the corpus can be written");
        }
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
            .unwrap_or_default();
        files.sort();
        let stored = files.iter().map(|path| std::fs::read(path).expect("a readable corpus"));
        target.seeds.extend(stored);
        let running = Running::default();
        watch(name, keep.clone(), &running);
        let (inputs, time) = match seconds {
            Some(seconds) => (usize::MAX, Duration::from_secs(seconds)),
            None => (target.inputs, TEST_TIME),
        };
        let session = Self {
            target,
            keep,
            traces: std::env::var(TRACE).is_ok(),
            inputs,
            time,
            began: Instant::now(),
            kept: Mutex::default(),
            count: Mutex::default(),
            running,
        };
        for input in &session.target.seeds {
            session.run(input);
        }
        session
    }

    /// Fresh inputs to run, at most.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// How long to run them, at most.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Runs the input that a recipe describes.
    pub fn fresh(&self, recipe: &[u8]) {
        self.run(&derive(recipe, &self.target.seeds));
    }

    /// Says how fast it was.
    pub fn report(&self) {
        let (count, seconds) = (*lock(&self.count), self.began.elapsed().as_secs_f64());
        let rate = count as f64 / seconds.max(1e-3);
        println!("fuzz: {:24} {count:>9} inputs {rate:>9.0}/s", self.target.name);
    }
}

/// Makes a test of each target: `name: inputs, seeds, function;`. A failure tells the seed that
/// makes the same inputs again (`BOLERO_RANDOM_SEED`) and the file that has the failing one.
#[macro_export]
macro_rules! targets {
    ($($name:ident: $inputs:expr, $seeds:expr, $run:expr;)*) => {$(
        #[test]
        fn $name() {
            let session = $crate::FuzzSession::open($crate::FuzzTarget {
                name: stringify!($name),
                inputs: $inputs,
                seeds: $seeds,
                keep: env!("CARGO_TARGET_TMPDIR"),
                run: $run,
            });
            let fresh = std::panic::AssertUnwindSafe(&session);
            $crate::bolero::check!()
                .with_iterations(session.inputs())
                .with_test_time(session.time())
                .for_each(|recipe: &[u8]| fresh.fresh(recipe));
            session.report();
        }
    )*};
}
