//! Finds librdmacm and libibverbs at run time, and says in one line what is missing.
//!
//! Nothing is linked: a program with this crate starts on machines that know nothing of RDMA. The
//! libraries are loaded once and stay; devices come and go, and are looked for at each call.

#![allow(unsafe_code, reason = "loads shared libraries")]

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

use crate::sys::{Ibverbs, Rdmacm};

/// The two libraries, with every function that this crate calls; only `ibv_reg_dmabuf_mr` may be
/// missing, as it is in older releases.
pub struct Libraries {
    pub(crate) verbs: Ibverbs,
    pub(crate) cm: Rdmacm,
}

/// Why there is no RDMA on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A library is not there, or does not load.
    #[error("no RDMA: {library} does not load ({reason}): install {packages}")]
    NoLibrary {
        /// Its file name.
        library: &'static str,
        /// The loader's words.
        reason: String,
        /// Who brings it.
        packages: &'static str,
    },
    /// A library lacks a function.
    #[error("no RDMA: {library} is too old (it lacks {symbol}): update rdma-core")]
    TooOld {
        /// Its file name.
        library: &'static str,
        /// The function.
        symbol: &'static str,
    },
    /// The system has no RDMA device.
    #[error(
        "no RDMA: the libraries are there, but no device is ({0} is empty or missing): load the \
         adapter's driver, or make a soft-RoCE device with `rdma link add rxe0 type rxe netdev ...`"
    )]
    NoDevice(String),
    /// The connection manager's device node is not there.
    #[error("no RDMA: {0} is missing: load the kernel module rdma_ucm")]
    NoConnectionManager(String),
    /// Programs have no way to the devices, as in a container that was not given one.
    #[error(
        "no RDMA: there is no uverbs node in {0}: load the kernel module ib_uverbs, or give the \
         container this folder"
    )]
    NoVerbs(String),
    /// This user may not use it.
    #[error(
        "no RDMA: {0} may not be opened (permission denied): have its owner allow reading and writing"
    )]
    NotPermitted(String),
    /// A device node cannot be opened for another reason.
    #[error("no RDMA: {path} cannot be opened ({reason}): look at the kernel's log")]
    Unusable {
        /// The device node.
        path: String,
        /// The system's words.
        reason: String,
    },
}

/// A library by its name, and what brings it.
struct Wanted {
    library: &'static str,
    packages: &'static str,
}

const VERBS: Wanted = Wanted {
    library: "libibverbs.so.1",
    packages: "libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (Fedora, RHEL)",
};
const CM: Wanted = Wanted {
    library: "librdmacm.so.1",
    packages: "librdmacm1 (Debian, Ubuntu) or librdmacm (Fedora, RHEL)",
};

static LOADED: OnceLock<Libraries> = OnceLock::new();

impl Libraries {
    /// Loads both libraries, and looks whether the machine has a device to use them with.
    ///
    /// Only success is remembered: what was missing may be installed while a program runs.
    pub fn load() -> Result<&'static Self, LoadError> {
        let libraries = Self::without_device()?;
        look_for_devices(Path::new("/"))?;
        Ok(libraries)
    }

    /// The libraries, whether or not there is a device.
    fn without_device() -> Result<&'static Self, LoadError> {
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded);
        }
        let fresh = Self { verbs: load_verbs()?, cm: load_cm()? };
        // Where two threads load at once, the second handle to the same library is dropped.
        Ok(LOADED.get_or_init(|| fresh))
    }
}

impl Wanted {
    fn open(&self) -> Result<libloading::Library, LoadError> {
        // SAFETY: these libraries' initialisers do nothing that this process could not stand; they
        // are trusted like the system's other libraries.
        unsafe { libloading::Library::new(self.library) }.map_err(|error| self.unloadable(&error))
    }

    fn unloadable(&self, error: &libloading::Error) -> LoadError {
        let reason = match error {
            libloading::Error::DlOpen { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let reason = reason.replace('\n', " ");
        LoadError::NoLibrary { library: self.library, reason, packages: self.packages }
    }
}

/// Fails with the first of these functions that a library lacks: the bindings would panic at its
/// first call.
macro_rules! require {
    ($wanted:expr, $library:expr, [$($function:ident),* $(,)?]) => {
        $(if $library.$function.is_err() {
            return Err(LoadError::TooOld {
                library: $wanted.library,
                symbol: stringify!($function),
            });
        })*
    };
}

fn load_verbs() -> Result<Ibverbs, LoadError> {
    // SAFETY: the library is the one that the bindings were written for: the name holds its ABI.
    let verbs = unsafe { Ibverbs::from_library(VERBS.open()?) }
        .map_err(|error| VERBS.unloadable(&error))?;
    require!(
        VERBS,
        verbs,
        [
            ibv_ack_cq_events,
            ibv_alloc_pd,
            ibv_close_device,
            ibv_create_comp_channel,
            ibv_create_cq,
            ibv_dealloc_pd,
            ibv_dereg_mr,
            ibv_destroy_comp_channel,
            ibv_destroy_cq,
            ibv_free_device_list,
            ibv_get_cq_event,
            ibv_get_device_list,
            ibv_get_device_name,
            ibv_modify_qp,
            ibv_open_device,
            ibv_query_device,
            ibv_query_port,
            ibv_reg_mr,
        ]
    );
    Ok(verbs)
}

fn load_cm() -> Result<Rdmacm, LoadError> {
    // SAFETY: as above.
    let cm = unsafe { Rdmacm::from_library(CM.open()?) }.map_err(|error| CM.unloadable(&error))?;
    require!(
        CM,
        cm,
        [
            raccept,
            rbind,
            rclose,
            rconnect,
            rdma_accept,
            rdma_ack_cm_event,
            rdma_bind_addr,
            rdma_connect,
            rdma_create_event_channel,
            rdma_create_id,
            rdma_create_qp,
            rdma_destroy_event_channel,
            rdma_destroy_id,
            rdma_destroy_qp,
            rdma_disconnect,
            rdma_get_cm_event,
            rdma_listen,
            rdma_migrate_id,
            rdma_reject,
            rdma_resolve_addr,
            rdma_resolve_route,
            rdma_set_option,
            rfcntl,
            rgetpeername,
            rgetsockname,
            rgetsockopt,
            rlisten,
            rpoll,
            rrecv,
            rsend,
            rsetsockopt,
            rshutdown,
            rsocket,
        ]
    );
    Ok(cm)
}

/// Looks below `root` for a device, its node and the connection manager's.
fn look_for_devices(root: &Path) -> Result<(), LoadError> {
    let devices = root.join("sys/class/infiniband");
    let any = std::fs::read_dir(&devices).is_ok_and(|mut entries| entries.next().is_some());
    if !any {
        return Err(LoadError::NoDevice(devices.display().to_string()));
    }
    let nodes = root.join("dev/infiniband");
    let manager = nodes.join("rdma_cm");
    if !manager.exists() {
        return Err(LoadError::NoConnectionManager(manager.display().to_string()));
    }
    openable(&manager)?;
    let mut result = Err(LoadError::NoVerbs(nodes.display().to_string()));
    for entry in std::fs::read_dir(&nodes).into_iter().flatten().flatten() {
        if result.is_err() && entry.file_name().to_string_lossy().starts_with("uverbs") {
            result = openable(&entry.path());
        }
    }
    result
}

fn openable(node: &Path) -> Result<(), LoadError> {
    let path = node.display().to_string();
    match OpenOptions::new().read(true).write(true).open(node) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Err(LoadError::NotPermitted(path))
        }
        Err(error) => Err(LoadError::Unusable { path, reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a system's root, removed when dropped.
    struct Root(std::path::PathBuf);

    impl Root {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("rsocket-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn with(self, file: &str) -> Self {
            let path = self.0.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
            self
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_machine_without_devices_gets_the_remedy() {
        let root = Root::new("none");
        let error = look_for_devices(&root.0).unwrap_err();
        assert!(matches!(error, LoadError::NoDevice(_)), "{error}");
        let line = error.to_string();
        assert!(line.contains("sys/class/infiniband") && line.contains("rdma link add"), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn a_device_without_its_connection_manager_is_not_enough() {
        let root = Root::new("no-cm").with("sys/class/infiniband/mlx5_0");
        let error = look_for_devices(&root.0).unwrap_err();
        assert!(matches!(error, LoadError::NoConnectionManager(_)), "{error}");
        assert!(error.to_string().contains("rdma_ucm"));
        let root = root.with("dev/infiniband/rdma_cm");
        let error = look_for_devices(&root.0).unwrap_err();
        assert!(matches!(error, LoadError::NoVerbs(_)), "{error}");
        let root = root.with("dev/infiniband/uverbs0");
        assert_eq!(look_for_devices(&root.0), Ok(()));
    }

    #[test]
    fn nodes_that_do_not_open_are_named() {
        let root = Root::new("odd").with("sys/class/infiniband/mlx5_0");
        // A folder cannot be opened for writing, whoever asks.
        std::fs::create_dir_all(root.0.join("dev/infiniband/rdma_cm")).unwrap();
        let error = look_for_devices(&root.0).unwrap_err();
        assert!(matches!(&error, LoadError::Unusable { path, .. } if path.ends_with("rdma_cm")));
        assert!(!error.to_string().contains('\n'));
    }

    #[test]
    fn loading_gives_libraries_or_one_line() {
        if let Err(error) = Libraries::load() {
            let line = error.to_string();
            assert!(line.starts_with("no RDMA: ") && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        let wanted = Wanted { library: "libno-such-thing.so.1", packages: "the package" };
        let line = wanted.open().unwrap_err().to_string();
        assert!(line.starts_with("no RDMA: libno-such-thing.so.1 does not load ("), "{line}");
        assert!(line.ends_with("install the package"), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn another_library_under_the_name_is_no_panic() {
        let wanted = Wanted { library: "libc.so.6", packages: "" };
        // SAFETY: every function is missing, so none is ever called.
        let verbs = unsafe { Ibverbs::from_library(wanted.open().unwrap()) }.unwrap();
        let check = || {
            require!(wanted, verbs, [ibv_reg_mr]);
            Ok(())
        };
        let expected = LoadError::TooOld { library: "libc.so.6", symbol: "ibv_reg_mr" };
        assert_eq!(check(), Err(expected));
    }
}
