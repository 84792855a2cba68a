//! A limit for calls that may never return: a driver that waits for its device, a file that does.

use std::cell::RefCell;
use std::sync::mpsc;
use std::time::Duration;
use std::{fmt, io, thread};

/// Why a call gave nothing.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// It takes longer than this.
    Late(Duration),
    /// The system gives no thread for it.
    NoThread(io::Error),
    /// It panicked.
    Broken,
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(limit) if limit.subsec_millis() == 0 => {
                write!(f, "no answer within {} s", limit.as_secs())
            }
            Self::Late(limit) => write!(f, "no answer within {} ms", limit.as_millis()),
            Self::NoThread(error) => {
                write!(f, "not asked, since no thread can be started (ulimit -u): {error}")
            }
            Self::Broken => f.write_str("not asked to the end, which is a fault of diagnose"),
        }
    }
}

/// A call on its way. One that hangs is left to the end of the process.
pub(crate) struct Pending<T>(Result<mpsc::Receiver<T>, NoAnswer>);

impl<T: Send + 'static> Pending<T> {
    /// Starts `f` in a thread of its own.
    pub(crate) fn start(f: impl FnOnce() -> T + Send + 'static) -> Self {
        let (to, from) = mpsc::sync_channel(1);
        let body = move || {
            // Nobody listens any more: too late.
            let _ = to.send(f());
        };
        let thread = thread::Builder::new().name("diagnose-look".to_owned()).spawn(body);
        Self(thread.map(|_| from).map_err(NoAnswer::NoThread))
    }

    /// What it returns, if that comes in time.
    pub(crate) fn wait(self, limit: Duration) -> Result<T, NoAnswer> {
        self.0?.recv_timeout(limit).map_err(|why| match why {
            mpsc::RecvTimeoutError::Timeout => NoAnswer::Late(limit),
            mpsc::RecvTimeoutError::Disconnected => NoAnswer::Broken,
        })
    }
}

/// What `f` returns, if that comes in time.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<T, NoAnswer> {
    Pending::start(f).wait(limit)
}

/// A thread for many short calls, one after the other: on a slow machine a thread for each costs more
/// than the calls. One that hangs is left to the end of the process, and the next call gets another.
#[derive(Default)]
pub(crate) struct Worker(RefCell<Option<mpsc::Sender<Call>>>);

type Call = Box<dyn FnOnce() + Send>;

impl Worker {
    /// As [`within`].
    pub(crate) fn within<T: Send + 'static>(
        &self,
        limit: Duration,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NoAnswer> {
        let (to, from) = mpsc::sync_channel(1);
        let call = Box::new(move || {
            // Nobody listens any more: too late.
            let _ = to.send(f());
        });
        let worker = self.0.take().map_or_else(Self::start, Ok)?;
        // Gone only where a call panicked, which its own answer has reported.
        let _ = worker.send(call);
        let answer = Pending(Ok(from)).wait(limit)?;
        self.0.replace(Some(worker));
        Ok(answer)
    }

    fn start() -> Result<mpsc::Sender<Call>, NoAnswer> {
        let (to, from) = mpsc::channel::<Call>();
        let body = move || from.into_iter().for_each(|call| call());
        let thread = thread::Builder::new().name("diagnose-looks".to_owned()).spawn(body);
        thread.map(|_| to).map_err(NoAnswer::NoThread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_hangs_or_breaks_is_replaced() {
        let worker = Worker::default();
        let long = Duration::from_secs(5);
        let name = || thread::current().id();
        let first = worker.within(long, name).expect("an answer");
        assert_eq!(worker.within(long, name).ok(), Some(first), "the same thread");
        let late = worker.within(Duration::from_millis(20), move || thread::sleep(2 * long));
        assert!(matches!(late, Err(NoAnswer::Late(_))));
        let second = worker.within(long, name).expect("an answer");
        assert_ne!(second, first);
        let broken = worker.within(long, || panic!("on purpose"));
        assert!(matches!(broken, Err::<(), _>(NoAnswer::Broken)));
        assert_ne!(worker.within(long, name).expect("an answer"), second);
    }

    #[test]
    fn a_call_without_an_answer_says_why() {
        assert_eq!(within(Duration::from_secs(5), || 7).ok(), Some(7));
        let late = within(Duration::from_millis(20), || thread::sleep(Duration::from_secs(9)));
        assert_eq!(late.unwrap_err().to_string(), "no answer within 20 ms");
        assert_eq!(NoAnswer::Late(Duration::from_secs(20)).to_string(), "no answer within 20 s");
        let broken = within(Duration::from_secs(5), || panic!("on purpose"));
        assert!(matches!(broken, Err::<(), _>(NoAnswer::Broken)));
    }
}
