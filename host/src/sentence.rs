//! What `Debug` shows of types that do not derive it. Of errors it is their sentence: `main` prints an error
//! that it returns by `Debug`, as does `unwrap`, and `Error: NoDriver` helps nobody (decision 24 of
//! docs/explanation/decisions.md).

/// Has `Debug` of error types print what `Display` does.
macro_rules! debug_as_sentence {
    ($($error:ty),* $(,)?) => { $(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )* };
}

/// Has `Debug` of handles show what these methods say.
macro_rules! debug_by_methods {
    ($($handle:ty { $($method:ident),* })*) => { $(
        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($handle));
                $(shown.field(stringify!($method), &self.$method());)*
                shown.finish_non_exhaustive()
            }
        }
    )* };
}

#[cfg(test)]
mod tests {
    use crate::{KernelError, NetError, OpenError, Rule, WaitError};

    /// As a program's `main` prints what it returns.
    fn printed(error: impl Into<Box<dyn std::error::Error>>) -> String {
        format!("Error: {:?}", error.into())
    }

    #[test]
    fn main_prints_sentences() {
        let text = printed(OpenError::NoDriver);
        assert!(text.starts_with("Error: no CUDA driver (libcuda.so.1 not found)"), "{text}");
        let killed = || KernelError::Killed { kernel: "k".to_owned() };
        let sentence = "Error: kernel 'k' was killed by the host";
        assert_eq!(printed(killed()), sentence);
        assert_eq!(printed(WaitError::Kernel(killed())), sentence);
        assert_eq!(printed(NetError::Setting("x")), "Error: a net cannot be made so: x");
        let text = printed("nonsense".parse::<Rule>().unwrap_err());
        assert!(text.starts_with("Error: `nonsense` is no rule"), "{text}");
    }
}
