#!/usr/bin/env python3
"""A directory as the storage of gridftp-server, in a process of its own: folder.py ROOT SOCKET.

Needs grpcio and grpcio-tools, and storage.proto on PYTHONPATH. Unfinished uploads are in ROOT.new.
"""
import concurrent.futures, contextlib, errno, functools, hashlib, itertools, os, shutil, socket, stat, sys
import threading

import grpc

messages, services = grpc.protos_and_services("storage.proto")

KINDS = {
    errno.ENOENT: "NOT_FOUND", errno.EACCES: "DENIED", errno.EPERM: "DENIED", errno.EEXIST: "EXISTS",
    errno.ENOTDIR: "NOT_DIRECTORY", errno.EISDIR: "IS_DIRECTORY", errno.ENOTEMPTY: "NOT_EMPTY",
    errno.ENOSPC: "NO_SPACE", errno.EDQUOT: "QUOTA", errno.EFBIG: "TOO_LARGE", errno.EROFS: "READ_ONLY",
    errno.ENAMETOOLONG: "BAD_NAME", errno.EINVAL: "BAD_NAME", errno.ELOOP: "OUTSIDE",
}  # fmt: skip


class Refused(Exception):
    """A failure that is no OSError, with its kind."""


def told(method):
    """Tells the kind of an error in the trailing metadata."""

    @functools.wraps(method)
    def call(self, request, context):
        try:
            return method(self, request)
        except OSError as error:
            kind, why = KINDS.get(error.errno, "IO"), error.strerror or "failed"
        except Refused as error:
            kind, why = error.args[0], error.args[0]
        context.set_trailing_metadata((("storage-error", kind),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)

    return call


class Folder(services.StorageServicer):
    def __init__(self, root):
        self.root = os.path.realpath(os.fsencode(root))
        self.new = self.root + b".new"
        shutil.rmtree(self.new, ignore_errors=True)  # of an earlier process
        os.makedirs(self.new)
        self.open = {}  # handle: descriptor, unfinished file, final path
        self.handles = itertools.count(1)

    def path(self, place):
        """The path of this machine; its directory is within the root, whatever links are on it."""
        path = place if isinstance(place, bytes) else place.path
        path = os.path.join(self.root, path.strip(b"/")).rstrip(b"/")
        real = os.path.realpath(path if path == self.root else os.path.dirname(path))
        if (real + b"/").startswith(self.root + b"/"):
            return path
        raise Refused("OUTSIDE")

    def facts(self, path, found=None):
        found = found or os.lstat(path)
        kinds = {stat.S_IFREG: messages.FILE, stat.S_IFDIR: messages.DIRECTORY, stat.S_IFLNK: messages.LINK}
        return messages.Facts(
            name=os.path.basename(path), kind=kinds.get(stat.S_IFMT(found.st_mode), messages.OTHER),
            size=found.st_size, mode=stat.S_IMODE(found.st_mode), links=found.st_nlink,
            modified=messages.Time(seconds=found.st_mtime_ns // 10**9, nanos=found.st_mtime_ns % 10**9),
            uid=found.st_uid, gid=found.st_gid, device=found.st_dev, inode=found.st_ino,
        )  # fmt: skip

    def set_meta(self, path, request):
        if request.HasField("mode"):
            os.chmod(path, request.mode)
        if request.HasField("modified"):
            nanos = request.modified.seconds * 10**9 + request.modified.nanos
            os.utime(path, ns=(os.lstat(path).st_atime_ns, nanos))

    def keep(self, descriptor, unfinished=None, path=None):
        handle = next(self.handles)
        self.open[handle] = (descriptor, unfinished, path)
        return messages.Opened(handle=handle)

    def regular(self, path):
        """Opens a file that is neither a link nor a device."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise Refused("IS_DIRECTORY" if stat.S_ISDIR(mode) else "NOT_REGULAR")
        return descriptor

    def digest(self, descriptor, algorithm, offset=0, length=None):
        digest, end, at = hashlib.new(algorithm.lower()), sys.maxsize if length is None else offset + length, offset
        while block := os.pread(descriptor, min(1 << 20, end - at), at):
            digest.update(block)
            at += len(block)
        return messages.Digest(digest=digest.hexdigest(), bytes=at - offset)

    def Describe(self, request, context):
        checksums = [messages.Algorithm(name=name, cost=12) for name in ("MD5", "SHA1", "SHA256")]
        return messages.Description(version=1, checksums=checksums, times=True)

    @told
    def Stat(self, place):
        return self.facts(self.path(place))

    def List(self, place, context):
        with os.scandir(self.path(place)) as entries:
            while batch := list(itertools.islice(entries, 500)):
                found = []
                for entry in batch:
                    try:
                        found.append(self.facts(entry.path, entry.stat(follow_symlinks=False)))
                    except FileNotFoundError:
                        pass  # removed meanwhile
                yield messages.Entries(entries=found)

    @told
    def Open(self, place):
        return self.keep(self.regular(self.path(place)))

    @told
    def Create(self, place):
        path = self.path(place)
        if not stat.S_ISDIR(os.stat(os.path.dirname(path)).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory")
        if os.path.isdir(path):
            raise Refused("IS_DIRECTORY")
        unfinished = os.path.join(self.new, b"%d" % next(self.handles))
        return self.keep(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), unfinished, path)

    @told
    def Finish(self, request):
        descriptor, unfinished, path = self.open.pop(request.handle)
        try:
            if request.algorithm and self.digest(descriptor, request.algorithm).digest != request.digest.lower():
                raise Refused("MISMATCH")
            self.set_meta(unfinished, request)
            os.fsync(descriptor)
            os.rename(unfinished, path)
            return self.facts(path)
        finally:
            os.close(descriptor)
            if os.path.lexists(unfinished):
                os.unlink(unfinished)

    @told
    def Close(self, request):
        descriptor, unfinished, _ = self.open.pop(request.handle, (None, None, None))
        if descriptor is not None:
            os.close(descriptor)
        if unfinished:
            os.unlink(unfinished)
        return messages.Done()

    @told
    def MakeDir(self, place):
        os.mkdir(self.path(place))
        return messages.Done()

    @told
    def RemoveDir(self, place):
        os.rmdir(self.path(place))
        return messages.Done()

    @told
    def Remove(self, place):
        os.unlink(self.path(place))
        return messages.Done()

    @told
    def RemoveTree(self, place):
        path = self.path(place)
        shutil.rmtree(path) if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink(path)
        return messages.Done()

    @told
    def Rename(self, request):
        os.rename(self.path(getattr(request, "from")), self.path(request.to))
        return messages.Done()

    @told
    def SetMeta(self, request):
        path = self.path(request.place)
        os.lstat(path)
        self.set_meta(path, request)
        return messages.Done()

    @told
    def Checksum(self, request):
        descriptor = self.regular(self.path(request.place))
        try:
            length = request.length if request.HasField("length") else None
            return self.digest(descriptor, request.algorithm, request.offset, length)
        finally:
            os.close(descriptor)


def pass_descriptor(folder, peer):
    """Answers a handle with the descriptor of its file; a peer that is gone or silent fails alone."""
    with peer, contextlib.suppress(OSError):
        peer.settimeout(30)
        with peer.makefile("rb") as stream:
            handle = int.from_bytes(stream.read(8), "big")
        opened = folder.open.get(handle)
        socket.send_fds(peer, [b"1"], [opened[0]] if opened else [])


def pass_descriptors(folder, at):
    """Serves each peer in a thread of its own."""
    while True:
        peer, _ = at.accept()
        threading.Thread(target=pass_descriptor, args=(folder, peer), daemon=True).start()


def main(root, path):
    folder = Folder(root)
    for name in (path, path + ".fd"):
        if os.path.exists(name):
            os.unlink(name)
    descriptors = socket.socket(socket.AF_UNIX)
    descriptors.bind(path + ".fd")
    descriptors.listen()
    threading.Thread(target=pass_descriptors, args=(folder, descriptors), daemon=True).start()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
    services.add_StorageServicer_to_server(folder, server)
    server.add_insecure_port("unix:" + path)
    server.start()
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main(*sys.argv[1:])
