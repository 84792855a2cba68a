//! The settings of a net, by their names: those of `NetBuilder`.

use std::sync::Arc;
use std::time::Duration;

use gpunet_host::{
    ControlMemory, NetBuilder, Placement, Placements, Policy, Rule, TransportChoice,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error;
use crate::process::duration;

/// All of them, with their types.
const SETTINGS: [(&str, &str); 18] = [
    ("sockets", "int"),
    ("reserved", "int"),
    ("unaccepted", "int"),
    ("ring", "int, bytes"),
    ("ring_memory", "int, bytes"),
    ("proxy_threads", "int"),
    ("request_slots", "int"),
    ("timeout", "float, seconds"),
    ("linger", "float, seconds"),
    ("heartbeat_timeout", "float, seconds"),
    ("spin", "float, seconds"),
    ("idle_sleep", "float, seconds"),
    ("policy", "dict"),
    ("transport", "'auto', 'tcp', 'rdma' or 'local'"),
    ("placements", "list of 'dma-buf', 'peer memory' and 'bounce'"),
    ("control_memory", "'auto', 'host' or 'gpu'"),
    ("on_print", "callable(launch, line)"),
    ("on_fault", "callable(launch, kernel, error)"),
];

/// The names and types of settings.
#[pyfunction]
pub(crate) fn net_settings() -> Vec<(&'static str, &'static str)> {
    SETTINGS.to_vec()
}

/// A builder with these settings.
pub(crate) fn apply(mut builder: NetBuilder, settings: &Bound<'_, PyDict>) -> PyResult<NetBuilder> {
    for (name, value) in settings.iter() {
        let name: String = name.extract()?;
        builder =
            one(builder, &name, &value).map_err(|error| explain(settings.py(), &name, error))?;
    }
    Ok(builder)
}

/// Says which setting a value of the wrong type was for.
fn explain(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    let kind = SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
    match kind {
        Some(kind) if error.is_instance_of::<PyTypeError>(py) => {
            PyTypeError::new_err(format!("setting '{name}' takes {kind}: {}", error.value(py)))
        }
        Some(kind) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(py) => {
            PyValueError::new_err(format!("setting '{name}' takes {kind}: {}", error.value(py)))
        }
        _ => error,
    }
}

fn one(builder: NetBuilder, name: &str, value: &Bound<'_, PyAny>) -> PyResult<NetBuilder> {
    let seconds = || -> PyResult<Duration> { duration(value.extract()?) };
    Ok(match name {
        "sockets" => builder.sockets(value.extract()?),
        "reserved" => builder.reserved(value.extract()?),
        "unaccepted" => builder.unaccepted(value.extract()?),
        "ring" => builder.ring(value.extract()?),
        "ring_memory" => builder.ring_memory(value.extract()?),
        "proxy_threads" => builder.proxy_threads(value.extract()?),
        "request_slots" => builder.request_slots(value.extract()?),
        "timeout" => builder.timeout(seconds()?),
        "linger" => builder.linger(seconds()?),
        "heartbeat_timeout" => builder.heartbeat_timeout(seconds()?),
        "spin" => builder.spin(seconds()?),
        "idle_sleep" => builder.idle_sleep(seconds()?),
        "policy" => builder.policy(policy(value.cast::<PyDict>()?)?),
        "transport" => builder.transport(match value.extract::<String>()?.as_str() {
            "auto" => TransportChoice::Auto,
            "tcp" => TransportChoice::Tcp,
            "rdma" => TransportChoice::Rdma,
            "local" | "p2p" => TransportChoice::Local,
            other => return Err(unknown("transport", other, "auto, tcp, rdma or local")),
        }),
        "placements" => builder.placements(placements(value)?),
        "control_memory" => builder.control_memory(match value.extract::<String>()?.as_str() {
            "auto" => ControlMemory::Auto,
            "host" => ControlMemory::Host,
            "gpu" => ControlMemory::Gpu,
            other => return Err(unknown("control_memory", other, "auto, host or gpu")),
        }),
        "on_print" => {
            let call = callback(value)?;
            builder.on_print(move |launch, line| {
                call_back(&call, |py, call| call.call1(py, (launch, line)))
            })
        }
        "on_fault" => {
            let call = callback(value)?;
            builder.on_fault(move |launch, kernel, fault| {
                call_back(&call, |py, call| {
                    let fault = error::of(fault.clone()).into_value(py);
                    call.call1(py, (launch, kernel, fault))
                });
            })
        }
        _ => return Err(no_such(name)),
    })
}

fn no_such(name: &str) -> PyErr {
    let known: Vec<&str> = net_settings().into_iter().map(|(name, _)| name).collect();
    let known = known.join(", ");
    PyTypeError::new_err(format!("a net has no setting '{name}'; it has: {known}"))
}

fn unknown(setting: &str, given: &str, known: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {setting} '{given}': use {known}"))
}

fn placements(names: &Bound<'_, PyAny>) -> PyResult<Placements> {
    let mut number = 0;
    for name in names.extract::<Vec<String>>()? {
        let known = Placement::ALL.into_iter().find(|placement| placement.name() == name);
        let known =
            known.ok_or_else(|| unknown("placement", &name, "dma-buf, peer memory or bounce"))?;
        number |= known as u64;
    }
    Placements::from_number(number).ok_or_else(|| PyValueError::new_err("placements: at least one"))
}

/// What kernels may do: lists of rules, numbers, and whether all else is allowed.
fn policy(settings: &Bound<'_, PyDict>) -> PyResult<Policy> {
    let closed: bool = match settings.get_item("closed")? {
        Some(closed) => closed.extract()?,
        None => false,
    };
    let mut policy = if closed { Policy::closed() } else { Policy::open() };
    for (name, value) in settings.iter() {
        let name: String = name.extract()?;
        let rules = || -> PyResult<Vec<Rule>> {
            let texts = value.extract::<Vec<String>>()?;
            let rule = |text: String| {
                text.parse().map_err(|error: gpunet_host::RuleError| {
                    PyValueError::new_err(error.to_string())
                })
            };
            texts.into_iter().map(rule).collect()
        };
        policy = match name.as_str() {
            "closed" => policy,
            "allow_connect" => rules()?.into_iter().fold(policy, Policy::allow_connect),
            "deny_connect" => rules()?.into_iter().fold(policy, Policy::deny_connect),
            "allow_bind" => rules()?.into_iter().fold(policy, Policy::allow_bind),
            "deny_bind" => rules()?.into_iter().fold(policy, Policy::deny_bind),
            "max_sockets" => policy.max_sockets(value.extract()?),
            "max_in_flight" => policy.max_in_flight(value.extract()?),
            "max_rate" => policy.max_rate(value.extract()?),
            _ => {
                let known = "closed, allow_connect, deny_connect, allow_bind, deny_bind, max_sockets, \
                             max_in_flight, max_rate";
                return Err(PyTypeError::new_err(format!(
                    "a policy has no setting '{name}'; it has: {known}"
                )));
            }
        };
    }
    Ok(policy)
}

fn callback(value: &Bound<'_, PyAny>) -> PyResult<Arc<Py<PyAny>>> {
    match value.is_callable() {
        true => Ok(Arc::new(value.clone().unbind())),
        false => Err(PyTypeError::new_err("it cannot be called")),
    }
}

/// Calls the program on a thread of the net's; what it raises is reported as Python does in such places. Nothing
/// happens once the interpreter is going.
fn call_back(
    call: &Arc<Py<PyAny>>,
    run: impl FnOnce(Python<'_>, &Py<PyAny>) -> PyResult<Py<PyAny>>,
) {
    Python::try_attach(|py| {
        if let Err(error) = run(py, call) {
            error.write_unraisable(py, Some(call.bind(py)));
        }
    });
}
