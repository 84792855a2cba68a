//! How much to measure: as much as was asked, or what a budget of time allows.

use std::time::Duration;

use gpunet_device::SocketAddr;

use crate::end::{End, RoundTrips, Streaming};
use crate::options::MeasureOptions;
use crate::report::{RoundTrip, StreamFigure};
use gpunet_apps::failure::Failure;

/// Time for the messages of one size.
const ROUND_TRIP_BUDGET: Duration = Duration::from_millis(400);
/// Time for a stream.
const STREAM_BUDGET: Duration = Duration::from_millis(700);
/// Messages that tell how long one takes; they also warm both ends up.
const PILOT_MESSAGES: u64 = 4;
/// Bytes that tell how fast a stream is.
const PILOT_BYTES: u64 = 1 << 20;
const MESSAGES: (u64, u64) = (20, 20_000);
const STREAM_BYTES: (u64, u64) = (1 << 20, 4 << 30);

/// Round trips of one size.
pub(crate) fn round_trips(
    end: &dyn End,
    server: &SocketAddr,
    bytes: u64,
    options: &MeasureOptions,
) -> Result<RoundTrip, Failure> {
    let measured = |messages| {
        let connections = options.connections;
        let work = RoundTrips { bytes, messages, connections, timeout: options.timeout };
        end.round_trips(server, &work)
    };
    if let Some(messages) = options.messages {
        return Ok(RoundTrip::of(bytes, measured(messages)?));
    }
    let pilot = measured(PILOT_MESSAGES)?;
    let mean = pilot.iter().sum::<u64>() as f64 / pilot.len().max(1) as f64;
    let messages = ROUND_TRIP_BUDGET.as_nanos() as f64 / mean.max(1.0);
    if messages < PILOT_MESSAGES as f64 {
        return Ok(RoundTrip::of(bytes, pilot));
    }
    Ok(RoundTrip::of(bytes, measured((messages as u64).clamp(MESSAGES.0, MESSAGES.1))?))
}

/// A one-way stream, to a server that checks it.
pub(crate) fn stream(
    end: &dyn End,
    server: &SocketAddr,
    asked: Option<u64>,
    options: &MeasureOptions,
) -> Result<StreamFigure, Failure> {
    let connections = options.connections;
    let measured = |bytes| {
        let work = Streaming { bytes, connections, timeout: options.timeout };
        let took = end.stream(server, &work)?;
        Ok(StreamFigure::of(bytes * u64::from(connections), took))
    };
    if let Some(bytes) = asked {
        return measured(bytes);
    }
    let pilot = measured(PILOT_BYTES)?;
    let bytes = pilot.gbps * STREAM_BUDGET.as_nanos() as f64 / f64::from(connections);
    let mebibytes = (bytes as u64).clamp(STREAM_BYTES.0, STREAM_BYTES.1) >> 20;
    measured(mebibytes << 20)
}
