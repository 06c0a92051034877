//! File systems whose other side changes things without a word to this kernel.

use std::path::Path;

/// Why the file system at `path` cannot be watched; `None` if it can.
///
/// By type, as statfs(2) tells it: network and host-guest file systems take watches and
/// stay silent on what others change. FUSE counts as one, since nobody can tell what
/// stands behind it.
#[cfg(target_os = "linux")]
pub fn kind(path: &Path) -> Option<&'static str> {
    /// Magic numbers from statfs(2) and linux/magic.h, and the kernel's vboxsf and smb
    /// sources for those that stand in neither.
    const REMOTE: [(i64, &str); 14] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB2"),
        (0x0102_1997, "9p"),
        (0x6573_5546, "FUSE"),
        (0x6a65_6a63, "virtiofs"),
        (0x786f_4256, "VirtualBox shared folder"),
        (0xbacb_acbc, "VMware shared folder"),
        (0x00c3_6400, "Ceph"),
        (0x5346_414f, "AFS"),
        (0x6b41_4653, "AFS"),
        (0x0bd0_0bd0, "Lustre"),
        (0x0116_1970, "GFS2"),
    ];
    let found = nix::sys::statfs::statfs(path).ok()?;
    // Some systems hand the number out as 32 bits with a sign.
    let number = found.filesystem_type().0 as i64 & 0xffff_ffff;
    REMOTE
        .iter()
        .find(|(magic, _)| *magic == number)
        .map(|(_, name)| *name)
}

/// Why the file system at `path` cannot be watched: not known here.
#[cfg(not(target_os = "linux"))]
pub fn kind(_path: &Path) -> Option<&'static str> {
    None
}

/// The same by name, for a file system mounted below the top (proc(5),
/// `/proc/pid/mountinfo`, field 9).
pub fn kind_by_name(name: &[u8]) -> Option<&'static str> {
    const REMOTE: [(&[u8], &str); 10] = [
        (b"nfs", "NFS"),
        (b"cifs", "CIFS"),
        (b"smb", "SMB"),
        (b"9p", "9p"),
        (b"fuse", "FUSE"),
        (b"virtiofs", "virtiofs"),
        (b"vboxsf", "VirtualBox shared folder"),
        (b"vmhgfs", "VMware shared folder"),
        (b"ceph", "Ceph"),
        (b"afs", "AFS"),
    ];
    REMOTE
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_name() {
        assert_eq!(kind_by_name(b"nfs4"), Some("NFS"));
        assert_eq!(kind_by_name(b"fuse.sshfs"), Some("FUSE"));
        assert_eq!(kind_by_name(b"fuseblk"), Some("FUSE"));
        assert_eq!(kind_by_name(b"tmpfs"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn proc_is_not_remote() {
        assert_eq!(kind(Path::new("/proc")), None);
    }
}
