//! Everything that depends on the operating system.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use fitgpt_program::units::Bytes;

/// Fills `bytes` with the content at `offset`, without touching the file's cursor.
///
/// Fails with [`io::ErrorKind::UnexpectedEof`] if the file ends first.
#[cfg(unix)]
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Fills `bytes` with the content at `offset`. Windows moves the cursor, which is not used here.
///
/// Fails with [`io::ErrorKind::UnexpectedEof`] if the file ends first.
#[cfg(windows)]
pub(crate) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads some bytes at `offset`, without touching the file's cursor.
#[cfg(unix)]
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

/// Reads some bytes at `offset`. Windows moves the cursor, which is not used here.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

/// Writes some bytes at `offset`, without touching the file's cursor.
#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

/// Writes some bytes at `offset`. Windows moves the cursor, which is not used here.
#[cfg(windows)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

/// Opens a regular file for reading. A pipe or a device is an error, and does not block.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        // Without it, opening a pipe waits for a writer.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Opens a file or a pipe, such as a shell's `<(command)`. A device, which may have no end, is an error.
pub fn open_endable(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = file.metadata()?.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device"));
        }
    }
    Ok(file)
}

/// Makes `link` a symbolic link to `target`, which may be relative to it.
#[cfg(unix)]
pub fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Windows allows symbolic links to administrators only.
#[cfg(not(unix))]
pub(crate) fn link_to(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether two paths, or the nearest folders above them that exist, are on the same disk.
#[cfg(unix)]
pub fn is_same_disk(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| {
        let path = std::path::absolute(path).ok()?;
        path.ancestors().find_map(|path| Some(std::fs::metadata(path).ok()?.dev()))
    };
    device(a) == device(b)
}

/// This is not known here: `true`, so that both sizes are counted.
#[cfg(not(unix))]
pub(crate) fn is_same_disk(_: &Path, _: &Path) -> bool {
    true
}

/// Opens a file with `options`, and fails if `path` is a link.
pub fn open_unfollowed(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    #[cfg(not(unix))]
    if std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_symlink()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link"));
    }
    options.open(path)
}

/// Whether this process ignores `signal`, as after `nohup`.
#[cfg(target_os = "linux")]
pub fn is_ignored(signal: i32) -> bool {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 << (signal - 1) != 0)
}

/// Only Linux reports it to safe code.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn is_ignored(_: i32) -> bool {
    false
}

/// The text of a regular file of at most `limit_bytes`.
pub fn read_text(path: &Path, limit_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut open_limited(path, limit_bytes)?, &mut text)?;
    Ok(text)
}

/// The bytes of a regular file of at most `limit_bytes`.
pub fn read_bytes(path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open_limited(path, limit_bytes)?, &mut bytes)?;
    Ok(bytes)
}

fn open_limited(path: &Path, limit_bytes: u64) -> io::Result<io::Take<File>> {
    let file = open_regular(path)?;
    let bytes = file.metadata()?.len();
    if bytes > limit_bytes {
        let message = format!("it has {bytes} bytes, more than the limit of {limit_bytes}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(io::Read::take(file, limit_bytes))
}

/// The cores that this process may run on, in the system's format; empty if unknown.
#[cfg(target_os = "linux")]
pub fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// The cores that this process may run on; unknown on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allowed_cores() -> String {
    String::new()
}

/// `MemAvailable` and the like from the text of `/proc/meminfo`.
#[cfg(target_os = "linux")]
pub fn meminfo(text: &str, field: &str) -> Option<Bytes> {
    let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024).map(Bytes::new)
}

/// The host memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessMemory {
    /// In memory now.
    pub resident: Bytes,
    /// The peak, if the system records it; otherwise what is resident.
    pub peak: Bytes,
}

/// The memory of the process `pid`; `None` if there is none.
#[cfg(target_os = "linux")]
pub fn process_memory(pid: u32) -> Option<ProcessMemory> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    // A process that has ended and waits for its parent has no such line.
    let resident = meminfo(&text, "VmRSS")?;
    Some(ProcessMemory { resident, peak: meminfo(&text, "VmHWM").unwrap_or(resident) })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn process_memory(pid: u32) -> Option<ProcessMemory> {
    let resident = Bytes::new(with_process(pid, sysinfo::Process::memory)?);
    Some(ProcessMemory { resident, peak: resident })
}

/// The name of the process `pid`.
#[cfg(target_os = "linux")]
pub fn process_name(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn process_name(pid: u32) -> Option<String> {
    with_process(pid, |process| process.name().to_string_lossy().into_owned())
}

#[cfg(not(target_os = "linux"))]
fn with_process<T>(pid: u32, ask: impl FnOnce(&sysinfo::Process) -> T) -> Option<T> {
    let pid = sysinfo::Pid::from_u32(pid);
    let mut system = sysinfo::System::new();
    system.refresh_processes(sysinfo::ProcessesToUpdate::Some(&[pid]), true);
    system.process(pid).map(ask)
}

/// A file called `name` that the process `pid` holds open.
#[cfg(target_os = "linux")]
pub fn open_file(pid: u32, name: &str) -> Option<PathBuf> {
    let held = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut paths = held.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    paths.find(|path| path.file_name().is_some_and(|found| found == name))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_file(_: u32, _: &str) -> Option<PathBuf> {
    None
}

/// How many NVIDIA cards the PCI bus shows, whether or not a driver serves them.
#[cfg(target_os = "linux")]
pub fn nvidia_cards_on_the_bus() -> usize {
    let is_card = |device: PathBuf| {
        let starts = |name, start| {
            let text = std::fs::read_to_string(device.join(name));
            text.is_ok_and(|text| text.starts_with(start))
        };
        starts("vendor", "0x10de") && starts("class", "0x03") // NVIDIA, a display controller
    };
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten();
    devices.filter(|entry| entry.as_ref().is_ok_and(|entry| is_card(entry.path()))).count()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn nvidia_cards_on_the_bus() -> usize {
    0
}

/// The library of NVIDIA's driver that reports on its cards.
pub const NVML: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };

/// `program` with its address space limited by the shell; `None` if the system does not enforce
/// such a limit.
pub fn limited(program: &Path, bytes: Bytes) -> Option<Command> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let mut command = Command::new("/bin/sh");
    // `ulimit -v` counts in KiB.
    let script = format!("ulimit -v {} && exec \"$@\"", bytes.get() / 1024);
    command.arg("-c").arg(script).arg("sh").arg(program);
    Some(command)
}

/// Bytes that a file in `folder`, or in the nearest folder above it that exists, could take.
#[cfg(unix)]
pub fn disk_free(folder: &Path) -> Option<Bytes> {
    let nearest = std::path::absolute(folder).ok()?;
    let stat = nearest.ancestors().find_map(|folder| rustix::fs::statvfs(folder).ok())?;
    stat.f_bavail.checked_mul(stat.f_frsize).map(Bytes::new)
}

#[cfg(not(unix))]
pub(crate) fn disk_free(_: &Path) -> Option<Bytes> {
    None
}

/// Syncs the names in a folder. Some file systems cannot and report an error, which is ignored:
/// nothing more can be done there.
#[cfg(unix)]
pub(crate) fn sync_names(dir: &Path) -> io::Result<()> {
    match File::open(dir)?.sync_all() {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Windows opens no folders; its file systems journal names by themselves.
#[cfg(not(unix))]
pub(crate) fn sync_names(_dir: &Path) -> io::Result<()> {
    Ok(())
}

/// Identifies a file independently of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity(pub(crate) u64, pub(crate) u64);

/// The identity of a file or a folder.
#[cfg(unix)]
pub fn file_identity(facts: &std::fs::Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt as _;
    FileIdentity(facts.dev(), facts.ino())
}

/// The identity of a file or a folder: without `unsafe`, Windows only gives its creation time.
#[cfg(not(unix))]
pub(crate) fn file_identity(facts: &std::fs::Metadata) -> FileIdentity {
    let created = facts.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    FileIdentity(0, created.map_or(0, |at| at.as_nanos() as u64))
}

/// A private folder of this user for notes between processes; it is created if missing.
pub fn private_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || Some(set("HOME")?.join(".cache"));
    let base = set("XDG_RUNTIME_DIR")
        .filter(|base| base.is_dir())
        .or_else(|| set("XDG_CACHE_HOME"))
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(home)?;
    let folder = base.join("fitgpt");
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(&folder).ok()?;
    Some(folder)
}

/// Writes a file that only this user can read, replacing an existing one.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    io::Write::write_all(&mut options.open(path)?, bytes)
}

/// Opens an address in the user's browser.
pub fn browse(address: &str) -> io::Result<()> {
    let (program, arguments): (_, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    let null = std::process::Stdio::null;
    command.args(arguments).arg(address).stdin(null()).stdout(null()).stderr(null());
    command.spawn().map(|_| ())
}

/// Asks a process to stop, as Ctrl-C would.
#[cfg(unix)]
pub fn interrupt(pid: u32) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let pid =
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).ok_or_else(invalid)?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::INT)?)
}

/// Windows has no signals for other processes.
#[cfg(not(unix))]
pub(crate) fn interrupt(_: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
