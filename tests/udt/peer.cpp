// A libudt peer: one connection, on which it sends a file, receives one, or echoes messages.
//
//   peer listen|connect ADDR|meet ADDR  send FILE|receive FILE|echo  MSS [FIRST]
//
// FIRST is the initial sequence number, where this end chooses it.
// Its first line of output is the local address, IP:PORT.

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <udt/udt.h>
#include <vector>

// The library derives its initial sequence number and its socket ID from rand(), as a part of 2^31 - 1.
static int first = 0;
extern "C" int rand() noexcept { return first ? first : static_cast<int>(random()); }

static void check(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    exit(1);
}

static sockaddr_in address(const std::string &text) {
    size_t colon = text.rfind(':');
    sockaddr_in out = {};
    out.sin_family = AF_INET;
    out.sin_port = htons(atoi(text.c_str() + colon + 1));
    inet_pton(AF_INET, text.substr(0, colon).c_str(), &out.sin_addr);
    return out;
}

int main(int count, char **args) {
    std::vector<std::string> words(args + 1, args + count);
    size_t at = 0;
    auto next = [&] { return at < words.size() ? words[at++] : std::string(); };
    std::string role = next();
    std::string where = role == "listen" ? "" : next();
    std::string action = next();
    std::string file = action == "echo" ? "" : next();
    int mss = atoi(next().c_str());
    first = atoi(next().c_str());

    UDT::startup();
    UDTSOCKET socket = UDT::socket(AF_INET, action == "echo" ? SOCK_DGRAM : SOCK_STREAM, 0);
    UDT::setsockopt(socket, 0, UDT_MSS, &mss, sizeof mss);
    bool meets = role == "meet";
    UDT::setsockopt(socket, 0, UDT_RENDEZVOUS, &meets, sizeof meets);
    sockaddr_in local = address("127.0.0.1:0");
    check(UDT::bind(socket, (sockaddr *)&local, sizeof local) != UDT::ERROR, "bind");
    int size = sizeof local;
    check(UDT::getsockname(socket, (sockaddr *)&local, &size) != UDT::ERROR, "getsockname");
    printf("127.0.0.1:%d\n", ntohs(local.sin_port));
    fflush(stdout);
    if (role == "listen") {
        check(UDT::listen(socket, 4) != UDT::ERROR, "listen");
        sockaddr_storage from;
        int length = sizeof from;
        UDTSOCKET taken = UDT::accept(socket, (sockaddr *)&from, &length);
        check(taken != UDT::INVALID_SOCK, "accept");
        UDT::close(socket);
        socket = taken;
    } else {
        sockaddr_in peer = address(where);
        check(UDT::connect(socket, (sockaddr *)&peer, sizeof peer) != UDT::ERROR, "connect");
    }

    std::vector<char> block(1 << 20);
    if (action == "send") {
        FILE *in = fopen(file.c_str(), "rb");
        size_t had;
        // An odd size, so that the ends of calls fall everywhere in packets.
        while (in && (had = fread(block.data(), 1, 100003, in)) > 0) {
            for (size_t done = 0; done < had;) {
                int sent = UDT::send(socket, block.data() + done, had - done, 0);
                check(sent != UDT::ERROR, "send");
                done += sent;
            }
        }
    } else if (action == "receive") {
        FILE *out = fopen(file.c_str(), "wb");
        for (;;) {
            int got = UDT::recv(socket, block.data(), block.size(), 0);
            if (got == UDT::ERROR) {
                printf("the end: %s\n", UDT::getlasterror().getErrorMessage());
                break;
            }
            fwrite(block.data(), 1, got, out);
        }
        fclose(out);
    } else {
        for (;;) {
            int got = UDT::recvmsg(socket, block.data(), block.size());
            if (got == UDT::ERROR)
                break;
            check(UDT::sendmsg(socket, block.data(), got, -1, true) != UDT::ERROR, "sendmsg");
        }
    }
    // Waits until everything is acknowledged.
    UDT::close(socket);
    UDT::cleanup();
    return 0;
}
