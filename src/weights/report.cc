// Formats offenders, one line each; hostile names are shortened and their control characters
// escaped.
#include "weights/report.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "weights/names.h"

namespace fathom {
namespace {

constexpr size_t kMaxShown = 400;  // bytes of one name or description

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out.push_back(c);
    }
  }
  if (text.size() > kMaxShown) {
    // Do not leave half a UTF-8 character at the cut.
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0) out.pop_back();
    out += fmt::format("... ({} bytes)", text.size());
  }
  return out;
}

}  // namespace

std::string describe_tensor(DType dtype, const std::vector<int64_t>& shape) {
  return fmt::format("{} [{}]", dtype_name(dtype), fmt::join(shape, ", "));
}

void OffenderReport::add(Offender offender) {
  ++count_;
  if (offenders_.size() < kMaxKept) offenders_.push_back(std::move(offender));
}

void OffenderReport::missing(std::string name, std::string expected) {
  add({"missing tensor", std::move(name), std::move(expected), "", ""});
}

void OffenderReport::unexpected(std::string name, std::string found, std::string file) {
  add({"unexpected tensor", std::move(name), "", std::move(found), std::move(file)});
}

std::string OffenderReport::line(const Offender& offender, bool with_nearest) const {
  std::string out = printable(offender.problem);
  if (!offender.name.empty()) out += " " + printable(offender.name);
  if (!offender.file.empty()) out += fmt::format(" in {}", printable(offender.file));
  const std::string found = printable(offender.found);
  if (!offender.expected.empty()) {
    out += fmt::format(": expected {}", printable(offender.expected));
    if (!found.empty()) out += fmt::format(", found {}", found);
  } else if (!found.empty()) {
    out += ": " + found;
  }
  const bool missing = offender.problem == "missing tensor";
  const bool unexpected = offender.problem == "unexpected tensor";
  if (with_nearest && (missing || unexpected)) {
    const auto nearest = nearest_name(offender.name, missing ? stored_names_ : model_names_);
    if (nearest) {
      out += fmt::format("; the nearest {} name is {}", missing ? "stored" : "known",
                         printable(*nearest));
    }
  }
  return out;
}

Status OffenderReport::to_status(const std::string& headline) const {
  if (empty()) return {};
  std::string message =
      fmt::format("{} ({} {}):", headline, count_, count_ == 1 ? "problem" : "problems");
  for (size_t i = 0; i < offenders_.size(); ++i) {
    message += "\n  " + line(offenders_[i], i < kMaxNearest);
  }
  if (offenders_.size() < count_) {
    message += fmt::format("\n  and {} more", count_ - offenders_.size());
  }
  return {Code::kCorrupt, std::move(message)};
}

}  // namespace fathom
