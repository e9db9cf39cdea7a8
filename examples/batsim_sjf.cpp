// Shortest requested time first with EASY backfilling: a scheduler that speaks Batsim's protocol, in one file.
//
//   hdrl bench run examples/batsim_sjf.cpp --tasks batch-lublin-85 -o result
//
// By hand: c++ -O1 -std=c++17 batsim_sjf.cpp -o sjf; ./sjf ipc:///tmp/sjf & hdrl-batsim -s ipc:///tmp/sjf -p ... -w ...
// `schedule` is what you replace. Below it are JSON and a ZeroMQ REP socket (ZMTP 3), so that no library is needed;
// with <zmq.h>, zmq_bind, zmq_recv and zmq_send take the place of the last part.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

struct Job { std::string id; size_t cores; double requested_s; std::vector<int> on; double end_s; };

static std::vector<Job> waiting, running;
static std::vector<int> idle;  // ids of idle cores, in order

// ---- the policy: which waiting jobs start now ----

static std::vector<Job> schedule(double now_s) {
  std::vector<Job> started, left;
  std::stable_sort(waiting.begin(), waiting.end(), [](auto& a, auto& b) { return a.requested_s < b.requested_s; });
  size_t n_idle = idle.size(), n_spare = 0;
  double shadow_s = 0;  // when the first job that does not fit can start; nothing may delay it
  for (Job& job : waiting) {
    bool fits = job.cores <= n_idle, is_first = left.empty();
    bool in_time = now_s + job.requested_s <= shadow_s || job.cores <= n_spare;
    if (fits && (is_first || in_time)) {
      n_idle -= job.cores;
      if (!is_first && now_s + job.requested_s > shadow_s) n_spare -= job.cores;
      job.end_s = now_s + job.requested_s;
      started.push_back(job);
    } else if (left.push_back(job); is_first) {
      std::vector<Job> ends = running;
      ends.insert(ends.end(), started.begin(), started.end());
      std::stable_sort(ends.begin(), ends.end(), [](auto& a, auto& b) { return a.end_s < b.end_s; });
      size_t n_free = n_idle;
      for (Job& other : ends)
        if (n_free < job.cores || other.end_s <= shadow_s) n_free += other.cores, shadow_s = other.end_s;
      n_spare = n_free - job.cores;
    }
  }
  waiting = left;
  return started;
}

// ---- JSON, as far as Batsim needs it ----

struct Json {
  std::string text;  // of a string, or a number as it is written
  std::vector<Json> items;
  std::map<std::string, Json> members;
  const Json& operator[](const char* key) const { return members.at(key); }
  double number() const { return std::strtod(text.c_str(), nullptr); }
};

static Json parse(const char*& at) {
  auto skip = [&] { while (*at && std::strchr(" \t\r\n,:", *at)) ++at; };
  Json found;
  skip();
  if (*at == '"') {
    for (++at; *at && *at != '"'; ++at) found.text += *at == '\\' ? *++at : *at;
    ++at;
  } else if (*at == '{' || *at == '[') {
    const char end = *at++ == '{' ? '}' : ']';
    for (skip(); *at && *at != end; skip()) {
      if (end == '}') { std::string key = parse(at).text; found.members[key] = parse(at); }
      else found.items.push_back(parse(at));
    }
    ++at;
  } else {
    while (*at && !std::strchr(" \t\r\n,:]}", *at)) found.text += *at++;
  }
  return found;
}

// ---- one message of Batsim, and the reply ----

static std::string answer(const std::string& message, bool& is_over) {
  const char* at = message.c_str();
  const Json all = parse(at);
  const std::string now = all["now"].text;
  for (const Json& event : all["events"].items) {
    const std::string& type = event["type"].text;
    const Json& data = event["data"];
    if (type == "SIMULATION_BEGINS") {
      for (int core = 0; core < data["nb_resources"].number(); ++core) idle.push_back(core);
    } else if (type == "JOB_SUBMITTED") {
      const Json& job = data["job"];
      const double requested_s = job.members.count("walltime") ? job["walltime"].number() : 1e18;
      waiting.push_back({data["job_id"].text, size_t(job["res"].number()), requested_s, {}, 0});
    } else if (type == "JOB_COMPLETED") {
      auto job = std::find_if(running.begin(), running.end(), [&](auto& j) { return j.id == data["job_id"].text; });
      idle.insert(idle.end(), job->on.begin(), job->on.end());
      std::sort(idle.begin(), idle.end());
      running.erase(job);
    }
    is_over = type == "SIMULATION_ENDS";
  }
  std::string reply;
  for (Job& job : schedule(all["now"].number())) {
    job.on.assign(idle.begin(), idle.begin() + job.cores);
    idle.erase(idle.begin(), idle.begin() + job.cores);
    std::string cores;
    for (int core : job.on) cores += (cores.empty() ? "" : " ") + std::to_string(core);
    reply += (reply.empty() ? "" : ",") + ("{\"timestamp\":" + now) + ",\"type\":\"EXECUTE_JOB\",\"data\":{\"job_id\":\"" +
             job.id + "\",\"alloc\":\"" + cores + "\"}}";
    running.push_back(job);
  }
  return "{\"now\":" + now + ",\"events\":[" + reply + "]}";
}

// ---- a ZeroMQ REP socket without libzmq: https://rfc.zeromq.org/spec/23 ----

static std::string take(int stream, size_t n_bytes) {
  std::string found(n_bytes, 0);
  for (size_t n = 0; n < n_bytes;) {
    const ssize_t more = read(stream, &found[n], n_bytes - n);
    if (more <= 0) std::exit(1);  // Batsim has gone away
    n += more;
  }
  return found;
}

static void send(int stream, const std::string& bytes) {
  if (write(stream, bytes.data(), bytes.size()) != ssize_t(bytes.size())) std::exit(1);
}

static std::string frame(char flags, const std::string& body) {
  std::string size;
  for (int shift = 56; shift >= 0; shift -= 8) size += char(body.size() >> shift);
  return char(flags | 2) + size + body;
}

static std::string next_frame(int stream, bool& more) {
  const unsigned char flags = take(stream, 1)[0];
  size_t size = 0;
  for (const unsigned char byte : take(stream, flags & 2 ? 8 : 1)) size = size << 8 | byte;
  more = flags & 1;
  return take(stream, size);
}

int main(int, char** arguments) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, arguments[1] + std::strlen("ipc://"), sizeof address.sun_path - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) || listen(listener, 1)) {
    std::perror(arguments[1]);
    return 2;
  }
  const int stream = accept(listener, nullptr, nullptr);
  send(stream, "\xff" + std::string(8, 0) + "\x7f\x03" + std::string(1, 0) + "NULL" + std::string(48, 0));
  take(stream, 64);
  send(stream, frame(4, std::string("\5READY\xbSocket-Type\0\0\0\3REP", 25)));
  bool more, is_over = false;
  next_frame(stream, more);
  while (!is_over) {
    std::string message = next_frame(stream, more);
    while (more) message = next_frame(stream, more);  // an empty frame comes first
    send(stream, frame(1, "") + frame(0, answer(message, is_over)));
  }
}
