//! The end-to-end suites once more, straight from kernel to kernel: a selection, or in a release
//! all of them. On the emulated GPU; the peers come by a relay.

use anyhow::Result;

use crate::context::Context;
use crate::report::Outcome;
use crate::suites::{self, AT_ONCE, Run};

/// Themes of the suite that a run which is not long has time for.
const SHORT: &[&str] = &["streams::", "endings::", "polls::", "local::", "unaccepted::"];

/// Runs them. What draws its cases draws few: it has drawn many by TCP if the run is long.
pub(crate) fn check(context: &Context) -> Result<Outcome> {
    let long = context.is_long();
    let (names, arguments): (&[&str], _) =
        if long { (&["suite", "hostile", "hostile_words"], &[][..]) } else { (&["suite"], SHORT) };
    let built = &context.built()?.executables;
    let programs = names.iter().map(|name| suites::named(built, "gpunet-e2e", name));
    let environment = [("GPUNET_TRANSPORT", "local"), ("GPUNET_GPU", "emulated")];
    let run = Run {
        name: "local",
        programs: programs.collect::<Result<_>>()?,
        arguments,
        environment: environment.map(|(name, value)| (name, value.to_owned())).into(),
        limit: context.limit(),
        at_once: AT_ONCE,
    };
    let mut outcome = run.run(context)?;
    outcome.remark = if long { "all suites" } else { "a selection" }.to_owned();
    Ok(outcome)
}
