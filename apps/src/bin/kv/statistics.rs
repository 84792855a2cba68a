//! What the kernel counted, read from its memory: a table, or JSON (docs/reference/json.md).

use std::time::Duration;

use gpunet_apps::failure::Failure;
use gpunet_host::Net;
use gpunet_kv::{WORDS, Word};
use gpunet_serve::Counter;
use gpunet_terminal::output::print as write_out;
use gpunet_terminal::table::Table;
use serde_json::{Map, Value, json};

use crate::tables::Tables;

/// Prints them as text or JSON.
fn show(values: &Map<String, Value>, json: bool) -> Result<(), Failure> {
    if json {
        return Ok(write_out(&format!("{}\n", Value::Object(values.clone())))?);
    }
    let mut table = Table::of_facts();
    for (name, value) in values {
        table.row([name.replace('_', " "), value.to_string()]);
    }
    Ok(write_out(&table.to_string())?)
}

/// Reads and prints them.
pub(crate) fn print(tables: &Tables, net: &Net, time: Duration, json: bool) -> Result<(), Failure> {
    let mut words = [0_u64; WORDS];
    tables.words.read(0, &mut words)?;
    let mut values = Map::new();
    values.insert("seconds".to_owned(), json!((time.as_secs_f64() * 1e3).round() / 1e3));
    for (name, word) in [
        ("keys", Word::Keys),
        ("expired", Word::Expired),
        ("hits", Word::Hits),
        ("misses", Word::Misses),
    ] {
        values.insert(name.to_owned(), json!(words[word as usize]));
    }
    for (counter, name) in Counter::ALL {
        let mut bytes = [0; 8];
        tables.memory.read(counter.offset(), &mut bytes)?;
        values.insert(name.to_owned(), json!(u64::from_le_bytes(bytes)));
    }
    values.insert("sockets_open".to_owned(), json!(net.statistics().sockets));
    show(&values, json)
}
