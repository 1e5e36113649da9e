// A program of libudt that sends bytes for a time or up to an amount, or receives them and says when they came.
//
//   peer receive IP            says where it listens, and in the end what came in each tenth of a second
//   peer send IP:PORT AMOUNT   AMOUNT in bytes, or in seconds as 30s; says when it began, how long it took,
//                              and packets sent, and sent again

#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>
#include <unistd.h>
#include <udt/udt.h>
#include <vector>

// As our end has it: packets of each buffer, and bytes of each call.
static const int PACKETS = 25600, BLOCK = 256 << 10;

static void check(bool good, const char *what) {
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
    exit(1);
}

static long long millis() {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static sockaddr_in address(const std::string &ip, int port) {
    sockaddr_in out = {};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    inet_pton(AF_INET, ip.c_str(), &out.sin_addr);
    return out;
}

static UDTSOCKET make() {
    UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
    int window = PACKETS, buffer = PACKETS * 1472, below = 12288000;
    UDT::setsockopt(socket, 0, UDT_FC, &window, sizeof window);
    UDT::setsockopt(socket, 0, UDT_SNDBUF, &buffer, sizeof buffer);
    UDT::setsockopt(socket, 0, UDT_RCVBUF, &buffer, sizeof buffer);
    UDT::setsockopt(socket, 0, UDP_SNDBUF, &below, sizeof below);
    UDT::setsockopt(socket, 0, UDP_RCVBUF, &below, sizeof below);
    return socket;
}

static void receive(const std::string &ip) {
    UDTSOCKET listener = make();
    sockaddr_in local = address(ip, 0);
    check(UDT::bind(listener, (sockaddr *)&local, sizeof local) != UDT::ERROR, "bind");
    int size = sizeof local;
    check(UDT::getsockname(listener, (sockaddr *)&local, &size) != UDT::ERROR, "getsockname");
    check(UDT::listen(listener, 1) != UDT::ERROR, "listen");
    printf("%s:%d\n", ip.c_str(), ntohs(local.sin_port));
    fflush(stdout);
    sockaddr_storage from;
    int length = sizeof from;
    UDTSOCKET socket = UDT::accept(listener, (sockaddr *)&from, &length);
    check(socket != UDT::INVALID_SOCK, "accept");
    std::vector<char> block(BLOCK);
    std::vector<long long> tenths;
    long long began = millis() / 100;
    for (;;) {
        int got = UDT::recv(socket, block.data(), BLOCK, 0);
        if (got == UDT::ERROR)
            break;
        size_t at = millis() / 100 - began;
        if (tenths.size() <= at)
            tenths.resize(at + 1);
        tenths[at] += got;
    }
    printf("%lld", began * 100);
    for (long long bytes : tenths)
        printf(" %lld", bytes);
    printf("\n");
    UDT::close(socket);
    UDT::close(listener);
}

static void send(const std::string &to, const std::string &amount) {
    size_t colon = to.rfind(':');
    sockaddr_in peer = address(to.substr(0, colon), atoi(to.c_str() + colon + 1));
    bool timed = amount.back() == 's';
    double limit = atof(amount.c_str());
    std::vector<char> block(BLOCK, 'x');
    long long began = millis();
    UDTSOCKET socket = make();
    check(UDT::connect(socket, (sockaddr *)&peer, sizeof peer) != UDT::ERROR, "connect");
    for (double sent = 0; (timed ? (millis() - began) / 1e3 : sent) < limit;) {
        int now = timed || limit - sent > BLOCK ? BLOCK : int(limit - sent);
        int done = UDT::send(socket, block.data(), now, 0);
        check(done != UDT::ERROR, "send");
        sent += done;
    }
    // Until everything is acknowledged, as a close would wait.
    int left = 1, size = sizeof left;
    while (UDT::getsockopt(socket, 0, UDT_SNDDATA, &left, &size) != UDT::ERROR && left > 0)
        usleep(200);
    double took = (millis() - began) / 1e3;
    UDT::TRACEINFO trace = {};
    UDT::perfmon(socket, &trace, false);
    UDT::close(socket);
    long long packets = trace.pktSentTotal + trace.pktRetransTotal;
    printf("%lld %.4f %lld %d\n", began, took, packets, trace.pktRetransTotal);
}

int main(int count, char **args) {
    std::vector<std::string> words(args + 1, args + count);
    UDT::startup();
    if (words.size() == 2 && words[0] == "receive")
        receive(words[1]);
    else if (words.size() == 3 && words[0] == "send")
        send(words[1], words[2]);
    else
        return 2;
    // Its threads need not be waited for.
    fflush(stdout);
    _exit(0);
}
