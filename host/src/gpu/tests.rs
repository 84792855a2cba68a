//! What needs no device: how a GPU is named and chosen, what its errors say.

use super::{Blame, Gpu, GpuChoice, GpuKind, OpenError};

#[test]
fn choices_are_parsed() {
    assert!(matches!("auto".parse(), Ok(GpuChoice::Auto)));
    assert!(matches!("cuda".parse(), Ok(GpuChoice::Cuda { ordinal: 0 })));
    assert!(matches!("cuda:3".parse(), Ok(GpuChoice::Cuda { ordinal: 3 })));
    assert!(matches!("emulated".parse(), Ok(GpuChoice::Emulated(_))));
    for text in ["", "cuda:", "cuda:-1", "cuda:+1", "cuda:x", "cuda:99999999999", "CUDA", "gpu"] {
        let error = text.parse::<GpuChoice>().unwrap_err();
        assert!(error.to_string().contains("auto, cuda, cuda:N or emulated"), "{error}");
        assert_eq!(error.blame(), Blame::Caller);
    }
    for text in ["auto", "cuda:2", "emulated"] {
        assert_eq!(text.parse::<GpuChoice>().unwrap().to_string(), text);
    }
}

#[test]
fn auto_always_opens_and_says_why() {
    let gpu = Gpu::open(GpuChoice::Auto).unwrap();
    let info = gpu.info();
    assert!(!info.reason.is_empty() && info.to_string().lines().count() == 1);
    if info.kind == GpuKind::Emulated {
        assert!(info.reason.contains("CUDA"), "{}", info.reason);
    }
}

#[test]
fn cuda_where_there_is_none_is_one_line() {
    // Device 999 exists nowhere, so that this holds on machines with CUDA too.
    let error = Gpu::open(GpuChoice::Cuda { ordinal: 999 }).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1);
    match error {
        OpenError::UnknownOrdinal { ordinal: 999, .. } => {}
        other => assert_eq!(other.blame(), Blame::System, "{other}"),
    }
}
