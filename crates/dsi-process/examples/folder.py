#!/usr/bin/env python3
"""A directory as the storage of gridftp-server, in a process of its own: folder.py ROOT SOCKET.
Needs grpcio and grpcio-tools, and storage.proto on PYTHONPATH. Unfinished uploads are in ROOT.new."""
import concurrent.futures, contextlib, errno, functools, hashlib, itertools, os, shutil, socket, stat, sys, threading
import grpc

messages, services = grpc.protos_and_services("storage.proto")
KINDS = """ENOENT NOT_FOUND EACCES DENIED EPERM DENIED EEXIST EXISTS ENOTDIR NOT_DIRECTORY EISDIR IS_DIRECTORY
    ENOTEMPTY NOT_EMPTY ENOSPC NO_SPACE EDQUOT QUOTA EFBIG TOO_LARGE EROFS READ_ONLY ENAMETOOLONG BAD_NAME
    EINVAL BAD_NAME ELOOP OUTSIDE""".split()
KINDS = {getattr(errno, name): kind for name, kind in zip(KINDS[::2], KINDS[1::2])}

class Refused(Exception): """A failure that is no OSError, with its kind."""

def told(method):
    """Tells the kind of an error in the trailing metadata; what returns nothing answers Done."""
    @functools.wraps(method)
    def call(self, request, context):
        try:
            answer = method(self, request)
            isinstance(answer, messages.Opened) and (context.is_active() or self.close(request))  # cancelled meanwhile
            return messages.Done() if answer is None else answer
        except OSError as error:
            kind, why = KINDS.get(error.errno, "IO"), error.strerror or "failed"
        except Refused as error:
            kind = why = error.args[0]
        context.set_trailing_metadata((("storage-error", kind),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
    return call

change = lambda operation: told(lambda self, place: operation(self.path(place)))

class Folder(services.StorageServicer):
    def __init__(self, root):
        self.root = os.path.realpath(os.fsencode(root))
        self.new = self.root + b".new"
        shutil.rmtree(self.new, ignore_errors=True)  # of an earlier process
        os.makedirs(self.new)
        self.open, self.names = {}, itertools.count(1)  # handle: descriptor, unfinished file, final path
    def path(self, place):
        """The path of this machine; its directory is within the root, whatever links are on it."""
        path = os.path.join(self.root, getattr(place, "path", place).strip(b"/")).rstrip(b"/")
        real = os.path.realpath(path if path == self.root else os.path.dirname(path))
        if (real + b"/").startswith(self.root + b"/"):
            return path
        raise Refused("OUTSIDE")
    def facts(self, path, found=None):
        found = found or os.lstat(path)
        kinds = {stat.S_IFREG: messages.FILE, stat.S_IFDIR: messages.DIRECTORY, stat.S_IFLNK: messages.LINK}
        kind, time = kinds.get(stat.S_IFMT(found.st_mode), messages.OTHER), divmod(found.st_mtime_ns, 10**9)
        return messages.Facts(
            name=os.path.basename(path), kind=kind, modified=messages.Time(seconds=time[0], nanos=time[1]),
            size=found.st_size, mode=stat.S_IMODE(found.st_mode), links=found.st_nlink, uid=found.st_uid,
            gid=found.st_gid, device=found.st_dev, inode=found.st_ino)  # fmt: skip
    def set_meta(self, path, request):
        read = os.lstat(path).st_atime_ns
        if request.HasField("mode"):
            os.chmod(path, request.mode)
        if request.HasField("modified"):
            time = request.modified.seconds * 10**9 + request.modified.nanos
            os.utime(path, ns=(read, time))
    def keep(self, request, descriptor, unfinished=None, path=None):
        self.open[request.handle] = (descriptor, unfinished, path)
        return messages.Opened()
    def regular(self, path):
        """Opens a file that is neither a link nor a device."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return descriptor
        os.close(descriptor)
        raise Refused("IS_DIRECTORY" if stat.S_ISDIR(mode) else "NOT_REGULAR")
    def digest(self, descriptor, algorithm, offset=0, length=None):
        digest, end, at = hashlib.new(algorithm.lower()), sys.maxsize if length is None else offset + length, offset
        while block := os.pread(descriptor, min(1 << 20, end - at), at):
            digest.update(block)
            at += len(block)
        return messages.Digest(digest=digest.hexdigest(), bytes=at - offset)

    def Describe(self, request, context):
        checksums = [messages.Checksum(name=name, cost=12) for name in ("MD5", "SHA1", "SHA256")]
        return messages.Description(version=1, checksums=checksums, times=True, exclusive=True)
    Stat = told(lambda self, place: self.facts(self.path(place)))
    def entries(self, found):
        for entry in found:
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                yield messages.Entries(entries=[self.facts(entry.path, entry.stat(follow_symlinks=False))])
    List = told(lambda self, place: self.entries(os.scandir(self.path(place))))
    Open = told(lambda self, request: self.keep(request, self.regular(self.path(request.place))))
    @told
    def Create(self, request):
        path = self.path(request.place)
        if not stat.S_ISDIR(os.stat(os.path.dirname(path)).st_mode):
            raise Refused("NOT_DIRECTORY")
        if os.path.isdir(path):
            raise Refused("IS_DIRECTORY")
        unfinished = os.path.join(self.new, b"%d" % next(self.names))
        return self.keep(request, os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644), unfinished, path)
    @told
    def Finish(self, request):
        descriptor, unfinished, path = self.open.pop(request.handle)
        try:
            wanted = request.checksum
            if wanted.algorithm and self.digest(descriptor, wanted.algorithm).digest != wanted.digest.lower():
                raise Refused("MISMATCH")
            self.set_meta(unfinished, request)
            os.fsync(descriptor)
            (os.link if request.exclusive else os.rename)(unfinished, path)
            return self.facts(path)
        finally:
            self.end(descriptor, unfinished)
    def end(self, descriptor, unfinished, _=None):
        os.close(descriptor)
        if unfinished and os.path.lexists(unfinished):
            os.unlink(unfinished)
    close = lambda self, request: request.handle in self.open and self.end(*self.open.pop(request.handle)) or None
    Close = told(close)
    MakeDir, RemoveDir, Remove = change(os.mkdir), change(os.rmdir), change(os.unlink)
    RemoveTree = change(lambda path: shutil.rmtree(path) if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink(path))
    Rename = told(lambda self, request: os.rename(self.path(getattr(request, "from")), self.path(request.to)))
    SetMeta = told(lambda self, request: self.set_meta(self.path(request.place), request))
    @told
    def Checksum(self, request):
        with open(self.regular(self.path(request.place)), "rb") as file:
            length = request.length if request.HasField("length") else None
            return iter([self.digest(file.fileno(), request.algorithm, request.offset, length)])

def pass_descriptor(folder, peer):
    """Answers a handle with the descriptor of its file; a peer that is gone or silent fails alone."""
    with peer, contextlib.suppress(OSError):
        peer.settimeout(30)
        opened = folder.open.get(int.from_bytes(peer.recv(8, socket.MSG_WAITALL), "big"))
        socket.send_fds(peer, [b"1"], [opened[0]] if opened else [])

def main(root, path):
    folder = Folder(root)
    for name in filter(os.path.lexists, (path, path + ".fd")):
        os.unlink(name)
    descriptors = socket.socket(socket.AF_UNIX)
    descriptors.bind(path + ".fd"), descriptors.listen()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16))
    services.add_StorageServicer_to_server(folder, server)
    server.add_insecure_port("unix:" + path)
    server.start()
    print("ready", flush=True)
    while True:  # each peer in a thread of its own
        threading.Thread(target=pass_descriptor, args=(folder, descriptors.accept()[0]), daemon=True).start()

if __name__ == "__main__":
    main(*sys.argv[1:])
