//! Reads what a guest prints: which job runs, what it prints, how it ended, what the kernel says.
//!
//! Pure: lines go in. The lines for the host are
//!
//! ```text
//! @gpunet ready                          the set-up is over
//! @gpunet unable REASON                  something of the set-up failed
//! @gpunet begin NAME
//! @gpunet skip TEST: REASON              a test of this job that could not run
//! @gpunet end NAME STATUS MILLISECONDS
//! @gpunet done                           all jobs have run
//! ```
//!
//! The kernel prints on the same console, and may do so in the middle of a line. Its messages are
//! known by their time stamp, and what they tore is put together again.

/// How lines for the host begin.
const MARK: &str = "@gpunet ";

/// What a line was about, for the one who watches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Jobs begin.
    Ready,
    /// A job has begun.
    Began(String),
    /// The last job in the list has ended.
    Ended,
    /// Everything has run.
    Done,
    /// The kernel gave up.
    Panicked,
}

/// How a job ended.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) struct End {
    pub(crate) status: i32,
    pub(crate) milliseconds: u64,
}

/// A job that has at least begun.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) printed: String,
    /// Lines `test: reason` about tests that could not run.
    pub(crate) skipped: String,
    /// Nothing while it runs, or if the guest ended in it.
    pub(crate) end: Option<End>,
    /// A process was killed because memory ran out.
    pub(crate) out_of_memory: bool,
}

/// Everything that a guest has said so far.
#[derive(Debug, Default)]
pub(crate) struct Console {
    pub(crate) ready: bool,
    pub(crate) done: bool,
    /// What of the set-up failed.
    pub(crate) unable: Vec<String>,
    /// The last lines of the kernel.
    pub(crate) panic: Option<String>,
    pub(crate) runs: Vec<Run>,
    /// The beginning of a line that the kernel tore.
    torn: String,
}

impl Console {
    /// Takes the next line.
    pub(crate) fn line(&mut self, line: &str) -> Option<Event> {
        let line = line.trim_end_matches(['\r', '\n']);
        if let Some(at) = kernel_stamp(line) {
            self.torn.push_str(&line[..at]);
            return self.kernel(&line[at..]);
        }
        let whole = std::mem::take(&mut self.torn) + line;
        match whole.strip_prefix(MARK) {
            Some(words) => self.marked(words),
            None => {
                if let Some(run) = self.running() {
                    run.printed.push_str(&whole);
                    run.printed.push('\n');
                }
                None
            }
        }
    }

    /// The job that runs now.
    pub(crate) fn running(&mut self) -> Option<&mut Run> {
        self.runs.last_mut().filter(|run| run.end.is_none())
    }

    fn kernel(&mut self, message: &str) -> Option<Event> {
        if let Some((_, why)) = message.split_once("Kernel panic - not syncing: ") {
            self.panic = Some(why.to_owned());
            return Some(Event::Panicked);
        }
        let killed = message.contains("Out of memory: Killed process")
            || message.contains("oom-kill:")
            || message.contains("oom_reaper:");
        if let Some(run) = self.running() {
            run.out_of_memory |= killed;
        }
        None
    }

    fn marked(&mut self, words: &str) -> Option<Event> {
        let (what, rest) = words.split_once(' ').unwrap_or((words, ""));
        match what {
            "ready" => {
                self.ready = true;
                Some(Event::Ready)
            }
            "unable" => {
                self.unable.push(rest.to_owned());
                None
            }
            "begin" => {
                self.runs.push(Run { name: rest.to_owned(), ..Run::default() });
                Some(Event::Began(rest.to_owned()))
            }
            "skip" => {
                let run = self.running()?;
                run.skipped.push_str(rest);
                run.skipped.push('\n');
                None
            }
            "end" => {
                let (name, end) = ended(rest)?;
                let run = self.running().filter(|run| run.name == name)?;
                run.end = Some(end);
                Some(Event::Ended)
            }
            "done" => {
                self.done = true;
                Some(Event::Done)
            }
            _ => None,
        }
    }
}

/// `rping 0 1230` is a name, an exit status and milliseconds.
fn ended(words: &str) -> Option<(&str, End)> {
    let mut words = words.split(' ');
    let name = words.next()?;
    let status = words.next()?.parse().ok()?;
    let milliseconds = words.next()?.parse().ok()?;
    words.next().is_none().then_some((name, End { status, milliseconds }))
}

/// Where a message of the kernel begins: `[   12.345678] `.
fn kernel_stamp(line: &str) -> Option<usize> {
    line.match_indices('[').map(|(at, _)| at).find(|at| {
        let Some((stamp, _)) = line[at + 1..].split_once("] ") else { return false };
        let Some((seconds, fraction)) = stamp.trim_start().split_once('.') else { return false };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        !seconds.is_empty() && digits(seconds) && fraction.len() == 6 && digits(fraction)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Console, Vec<Event>) {
        let mut console = Console::default();
        let events = text.lines().filter_map(|line| console.line(line)).collect();
        (console, events)
    }

    #[test]
    fn a_run_from_boot_to_end() {
        let (console, events) = read(
            "SeaBIOS (version 1.16)\r\n\x1b[2J\n[    0.5] no stamp\n@gpunet ready\r
@gpunet begin rping\nping data\r\n\n@gpunet end rping 0 1230\r
@gpunet begin verbs\ntest a ... ok\n@gpunet skip b: no device\n@gpunet end verbs 101 20\r
@gpunet done\n",
        );
        let began = |name: &str| Event::Began(name.into());
        assert_eq!(
            events,
            [Event::Ready, began("rping"), Event::Ended, began("verbs"), Event::Ended, Event::Done]
        );
        assert!(console.ready && console.done && console.panic.is_none());
        assert_eq!(console.runs[0].printed, "ping data\n\n");
        assert_eq!(console.runs[0].end, Some(End { status: 0, milliseconds: 1230 }));
        assert_eq!(console.runs[1].skipped, "b: no device\n");
        assert_eq!(console.runs[1].end, Some(End { status: 101, milliseconds: 20 }));
    }

    #[test]
    fn lines_that_the_kernel_interrupts_are_joined() {
        let (console, events) = read(
            "@gpunet begin a\ntest x ... [   12.345678] rdma_rxe: hello\n[   12.345679] again\nok\n\
             @gpunet e[   13.000001] bye\nnd a 0 5\n",
        );
        assert_eq!(console.runs[0].printed, "test x ... ok\n");
        assert_eq!(events.last(), Some(&Event::Ended));
    }

    #[test]
    fn a_panic_is_seen_and_leaves_the_job_open() {
        let (console, events) = read(
            "@gpunet ready\n@gpunet begin a\n[   12.345678] Kernel panic - not syncing: Fatal exception\n",
        );
        assert_eq!(events.last(), Some(&Event::Panicked));
        assert_eq!(console.panic.as_deref(), Some("Fatal exception"));
        assert_eq!(console.runs[0].end, None);
    }

    #[test]
    fn out_of_memory_is_attributed_to_its_job() {
        let (console, _) = read(
            "@gpunet begin a\n@gpunet end a 0 1\n@gpunet begin b\n\
             [   99.000001] Out of memory: Killed process 77 (rstream)\n@gpunet end b 137 9\n",
        );
        assert!(!console.runs[0].out_of_memory && console.runs[1].out_of_memory);
    }

    #[test]
    fn unknown_and_broken_lines_change_nothing() {
        let (console, events) = read(
            "@gpunet end a 0 1\n@gpunet skip a: b\n@gpunet begin a\n@gpunet what is this\n@gpunet\n\
             @gpunet end b 0 1\n@gpunet end a x 1\n@gpunet end a 0\n@gpunet end a 0 1 2\n\
             [ a.000000] b\n[1.2] c\n[é.000000] d\n",
        );
        assert_eq!(events, [Event::Began("a".into())]);
        assert_eq!((console.runs.len(), console.runs[0].end), (1, None));
        assert_eq!(console.runs[0].printed, "@gpunet\n[ a.000000] b\n[1.2] c\n[é.000000] d\n");
        assert!(!console.done && !console.ready);
    }
}
