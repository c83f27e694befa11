// Turns snapshots into metric families.
#include "http/metric_snapshots.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

namespace fathom {
namespace {

using Families = std::vector<prometheus::MetricFamily>;

void add(Families& families, const char* name, const char* help, prometheus::MetricType type,
         double value) {
  prometheus::ClientMetric metric;
  metric.counter.value = value;
  metric.gauge.value = value;
  families.push_back({name, help, type, {metric}});
}

void gauge(Families& families, const char* name, const char* help, double value) {
  add(families, name, help, prometheus::MetricType::Gauge, value);
}

void counter(Families& families, const char* name, const char* help, double value) {
  add(families, name, help, prometheus::MetricType::Counter, value);
}

int open_descriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (!folder) return 0;
  int count = 0;
  while (readdir(folder.get()) != nullptr) ++count;
  return count - 3;  // ".", ".." and the folder itself
}

double resident_bytes() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "r"), fclose);
  long total = 0, resident = 0;
  if (!file || std::fscanf(file.get(), "%ld %ld", &total, &resident) != 2) return 0;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

void append_engine_metrics(const EngineMetrics& engine, Families& families) {
  const auto number = [](auto value) { return static_cast<double>(value); };
  gauge(families, "fathom:num_requests_running", "Sequences in the running batch", engine.running);
  gauge(families, "fathom:num_requests_waiting", "Requests that wait for a place in the batch",
        engine.waiting);
  gauge(families, "fathom:kv_cache_usage_ratio", "Used part of the KV pages, 0 to 1",
        engine.kv_pages_total == 0 ? 0
                                   : number(engine.kv_pages_used) / number(engine.kv_pages_total));
  gauge(families, "fathom:kv_cache_pages", "KV pages in all", number(engine.kv_pages_total));
  gauge(families, "fathom:kv_cache_pages_used", "KV pages that sequences own",
        number(engine.kv_pages_used));
  gauge(families, "fathom:kv_cache_pages_cached", "KV pages kept for the prefix cache only",
        number(engine.kv_pages_cached));
  gauge(families, "fathom:kv_cache_memory_bytes", "Memory of the KV pages",
        number(engine.kv_memory_bytes));
  gauge(families, "fathom:weight_memory_bytes", "Memory of the weights",
        number(engine.weight_bytes));
  counter(families, "fathom:requests_accepted_total", "Generation requests accepted",
          number(engine.requests_accepted));
  counter(families, "fathom:requests_refused_total", "Generation requests refused at submit",
          number(engine.requests_refused));
  counter(families, "fathom:requests_cancelled_total", "Generation requests cancelled",
          number(engine.requests_cancelled));
  counter(families, "fathom:prompt_tokens_total", "Prompt tokens of requests that have a token",
          number(engine.prompt_tokens));
  counter(families, "fathom:generation_tokens_total", "Tokens generated",
          number(engine.completion_tokens));
  counter(families, "fathom:prefix_cache_queries_total",
          "Prompt tokens looked up in the prefix cache", number(engine.prefix_query_tokens));
  counter(families, "fathom:prefix_cache_hits_total", "Of these, found",
          number(engine.prefix_hit_tokens));
  counter(families, "fathom:prefix_cache_evictions_total", "Cached pages that made room",
          number(engine.prefix_evictions));
  counter(families, "fathom:request_timeouts_total", "Requests whose time was over",
          number(engine.timeouts));
  counter(families, "fathom:num_preemptions_total", "Sequences that had to give their pages back",
          number(engine.preemptions));
  counter(families, "fathom:recomputed_tokens_total", "Rows spent on resuming those",
          number(engine.recomputed_tokens));
  counter(families, "fathom:engine_steps_total", "Steps of the model", number(engine.steps));
  counter(families, "fathom:engine_step_seconds_total", "Time spent in steps", engine.step_seconds);
}

void append_process_metrics(Families& families) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  counter(families, "process_cpu_seconds_total", "Processor time, user and system",
          seconds(usage.ru_utime) + seconds(usage.ru_stime));
  gauge(families, "process_resident_memory_bytes", "Resident memory", resident_bytes());
  gauge(families, "process_open_fds", "Open file descriptors", open_descriptors());
  gauge(families, "process_max_fds", "Most file descriptors that may be open",
        static_cast<double>(descriptors.rlim_cur));
}

}  // namespace fathom
