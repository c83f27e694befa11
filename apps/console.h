// What the terminal user sees: output that notices failures, errors, progress bars, tables.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "types/progress.h"

namespace fathom::apps {

bool stdin_is_terminal();
bool stdout_is_terminal();
bool stderr_is_terminal();

// Standard output. A failed write (full disk) is remembered; close_output() reports it.
void print(std::string_view text);
void flush_output();
// JSON on one line; bytes that are no UTF-8 become U+FFFD.
void print_json(const nlohmann::ordered_json& value);
// The same text as print_json() writes, without the line end.
std::string json_line(const nlohmann::ordered_json& value);
bool close_output();  // flushes; false and a message on stderr if anything was lost

// Standard error: one line, "fathom: " in front.
void note(std::string_view message);
int fail(const Status& status);          // prints "fathom: error: ..."; returns kExitFailure
int usage_error(std::string_view what);  // the same with a hint at --help; returns kExitUsage

// Reads all of standard input, up to `max_bytes`.
Result<std::string> read_standard_input(uint64_t max_bytes);
// The same of what a user names: a file, a pipe such as the shell's <(command), or "-" for standard
// input.
Result<std::string> read_named_input(const std::string& path, uint64_t max_bytes);

// A bar on stderr, only if that is a terminal; elsewhere every call does nothing. Used by one
// thread at a time.
class ProgressBar {
 public:
  enum class Unit { kBytes, kCount };
  ProgressBar(std::string label, Unit unit);
  ~ProgressBar();  // clears the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done, uint64_t total);
  void clear();
  Progress callback();  // calls update(); valid as long as the bar

 private:
  std::string label_;
  Unit unit_;
  bool enabled_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

// A plain-text table: columns are as wide as their widest cell; numbers may be right-aligned.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string human_bytes(uint64_t bytes);  // "1.50 GiB"
std::string human_count(double count);    // "15.7 B"
size_t display_width(std::string_view utf8);

}  // namespace fathom::apps
