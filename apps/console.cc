// Output, errors, progress bars and tables of the binary.
#include "apps/console.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "apps/commands.h"
#include "core/file.h"

namespace fathom::apps {
namespace {

bool output_failed = false;  // a write to stdout was lost; only the main thread writes

Result<std::string> read_stream(FILE* stream, const std::string& name, uint64_t max_bytes) {
  std::string text;
  char chunk[1 << 16];
  size_t count = 0;
  while ((count = std::fread(chunk, 1, sizeof chunk, stream)) > 0) {
    if (text.size() + count > max_bytes) {
      return error(Code::kInvalidArgument,
                   fmt::format("{} is longer than {}.", name, human_bytes(max_bytes)));
    }
    text.append(chunk, count);
  }
  if (std::ferror(stream)) {
    return error(Code::kInvalidArgument, fmt::format("{} cannot be read.", name));
  }
  return text;
}

}  // namespace

bool stdin_is_terminal() {
  return isatty(STDIN_FILENO) == 1;
}
bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) output_failed = true;
}

void flush_output() {
  if (std::fflush(stdout) != 0) output_failed = true;
}

std::string json_line(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_json(const nlohmann::ordered_json& value) {
  print(json_line(value));
  print("\n");
}

bool close_output() {
  flush_output();
  if (output_failed) note("error: not everything could be written to standard output.");
  return !output_failed;
}

void note(std::string_view message) {
  const std::string line = fmt::format("fathom: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int fail(const Status& status) {
  note("error: " + status.message());
  return kExitFailure;
}

int usage_error(std::string_view what) {
  note(fmt::format("error: {}\nRun `fathom COMMAND --help` for the options and examples.", what));
  return kExitUsage;
}

Result<std::string> read_standard_input(uint64_t max_bytes) {
  return read_stream(stdin, "Standard input", max_bytes);
}

Result<std::string> read_named_input(const std::string& path, uint64_t max_bytes) {
  if (path == "-") return read_standard_input(max_bytes);
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  using std::filesystem::file_type;
  if (type != file_type::fifo && type != file_type::character && type != file_type::socket) {
    return read_text_file(path, max_bytes);
  }
  const std::unique_ptr<FILE, int (*)(FILE*)> stream(std::fopen(path.c_str(), "rb"), std::fclose);
  if (stream == nullptr) {
    return error(Code::kInvalidArgument,
                 fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  }
  return read_stream(stream.get(), path, max_bytes);
}

ProgressBar::ProgressBar(std::string label, Unit unit)
    : label_(std::move(label)),
      unit_(unit),
      enabled_(stderr_is_terminal()),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  const bool last = done >= total;
  if (!last && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  constexpr int kWidth = 24;
  const double part = total > 0 ? std::min(1.0, double(done) / double(total)) : 1.0;
  const int full = static_cast<int>(part * kWidth);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string amount;
  if (unit_ == Unit::kBytes) {
    amount = fmt::format("{} of {}", human_bytes(done), human_bytes(total));
    if (seconds > 0.5) amount += fmt::format(", {}/s", human_bytes(uint64_t(done / seconds)));
  } else {
    amount = fmt::format("{} of {}", done, total);
  }
  fmt::print(stderr, "\r\x1b[K{} [{}{}] {:3.0f}%  {}", label_, std::string(full, '#'),
             std::string(kWidth - full, ' '), part * 100, amount);
  std::fflush(stderr);
  shown_ = true;
}

void ProgressBar::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  shown_ = false;
}

Progress ProgressBar::callback() {
  return [this](uint64_t done, uint64_t total) { update(done, total); };
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  std::string out;
  const auto line = [&](auto&& cell_of) {
    std::string row;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string fill(widths[c] - display_width(cell), ' ');
      if (c > 0) row += "  ";
      row += columns_[c].align == Align::kRight ? fill + cell : cell + fill;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + "\n";
  };
  const bool titled = std::any_of(columns_.begin(), columns_.end(),
                                  [](const Column& column) { return !column.title.empty(); });
  if (titled) {
    line([&](size_t c) -> const std::string& { return columns_[c].title; });
    std::vector<std::string> rule;
    for (const size_t width : widths) rule.emplace_back(width, '-');
    line([&](size_t c) -> const std::string& { return rule[c]; });
  }
  for (const auto& row : rows_) line([&](size_t c) -> const std::string& { return row[c]; });
  return out;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  return value < 10    ? fmt::format("{:.2f} {}", value, units[unit])
         : value < 100 ? fmt::format("{:.1f} {}", value, units[unit])
                       : fmt::format("{:.0f} {}", value, units[unit]);
}

std::string human_count(double count) {
  const char* units[] = {"", " K", " M", " B", " T"};
  int unit = 0;
  while (count >= 1000 && unit < 4) count /= 1000, ++unit;
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.3g}{}", count, units[unit]);
}

size_t display_width(std::string_view utf8) {
  size_t width = 0;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  for (size_t at = 0; at < utf8.size();) {
    utf8proc_int32_t point = 0;
    const auto used = utf8proc_iterate(bytes + at, utf8proc_ssize_t(utf8.size() - at), &point);
    if (used <= 0) {
      ++at, ++width;
      continue;
    }
    width += static_cast<size_t>(std::max(0, utf8proc_charwidth(point)));
    at += static_cast<size_t>(used);
  }
  return width;
}

}  // namespace fathom::apps
