// Collects everything that is wrong with a checkpoint and says it in one message.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/status.h"

namespace fathom {

// "BF16 [128, 64]"; a scalar is "F32 []".
std::string describe_tensor(DType dtype, const std::vector<int64_t>& shape);

// One thing that is wrong, as words. Empty fields are left out of the message.
struct Offender {
  std::string problem;   // "missing tensor", "unexpected tensor", "wrong shape", ...
  std::string name;      // of the tensor; empty if it concerns a file as a whole
  std::string expected;  // "BF16 [128, 64]", or in words
  std::string found;     // without `expected`: what is wrong, in words
  std::string file;
};

// The offenders of one checkpoint. Owned and filled by one thread.
class OffenderReport {
 public:
  static constexpr size_t kMaxKept = 1000;    // stored and listed; the others are counted
  static constexpr size_t kMaxNearest = 100;  // whose nearest name is looked for, which costs time

  void add(Offender offender);
  void missing(std::string name, std::string expected);
  void unexpected(std::string name, std::string found, std::string file);

  // Names that a missing tensor may be stored under (those in the checkpoint), and names that an
  // unexpected tensor may stand for (those of the model). With them the message names the nearest.
  void set_stored_names(std::vector<std::string> names) { stored_names_ = std::move(names); }
  void set_model_names(std::vector<std::string> names) { model_names_ = std::move(names); }

  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  // The first kMaxKept of them: a hostile file may have millions.
  const std::vector<Offender>& offenders() const { return offenders_; }

  // Ok if there are no offenders; otherwise kCorrupt with "HEADLINE (N problems):" and a line for
  // each, in the order of adding. The headline is a clause such as "the weights in /m do not fit
  // config.json".
  Status to_status(const std::string& headline) const;

 private:
  std::string line(const Offender& offender, bool with_nearest) const;

  size_t count_ = 0;
  std::vector<Offender> offenders_;
  std::vector<std::string> stored_names_;
  std::vector<std::string> model_names_;
};

}  // namespace fathom
