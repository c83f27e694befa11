// Reads the index of a sharded checkpoint and picks the files that a checkpoint consists of.
#include "weights/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "core/file.h"
#include "core/log.h"
#include "weights/strict_json.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxIndexDepth = 8;  // metadata may hold anything; weight_map is 2 deep
constexpr size_t kMaxShards = 100'000;
constexpr size_t kMaxListed = 20;

// A shard must lie beside its index: a path would let a downloaded file name any file of the
// machine.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

class IndexVisitor final : public JsonVisitor {
 public:
  IndexVisitor(const std::string& file, ShardIndex& index, OffenderReport& report)
      : file_(file), index_(index), report_(report) {}

  bool begin(const Path& path, bool array) override {
    if (path.empty() && array) return fail("it is a JSON array, not an object");
    if (path.size() == 1 && path[0] == "weight_map") {
      if (array) return fail("its weight_map is not an object");
      has_map = true;
    }
    if (path.size() == 2 && path[0] == "weight_map") {
      report_.add({"malformed weight_map entry of tensor", path[1], "a file name",
                   "a list or object", file_});
    }
    return true;
  }

  bool scalar(const Path& path, JsonScalar value) override {
    if (path.empty()) return fail("it is not a JSON object");
    const bool number = value.kind == JsonScalar::Kind::kUnsigned;
    if (path.size() == 2 && path[0] == "metadata" && path[1] == "total_size" && number) {
      index_.total_size = value.number;
    }
    if (path.size() != 2 || path[0] != "weight_map") return true;
    if (value.kind != JsonScalar::Kind::kString) {
      report_.add({"malformed weight_map entry of tensor", path[1], "a file name", "", file_});
    } else if (!is_plain_name(value.text)) {
      report_.add({"forbidden shard name for tensor", path[1],
                   "the name of a file beside the index", value.text, file_});
    } else {
      index_.weight_map.emplace_back(path[1], std::move(value.text));
    }
    return true;
  }

  bool end(const Path&) override { return true; }

  bool duplicate_key(const Path& path) override {
    if (path.size() == 2 && path[0] == "weight_map") {
      report_.add({"duplicate tensor", path[1], "one entry in weight_map", "two", file_});
      return true;
    }
    return path.size() > 2 || fail(fmt::format("it has the key {} twice", path.back()));
  }

  bool has_map = false;

 private:
  const std::string& file_;
  ShardIndex& index_;
  OffenderReport& report_;
};

// "model-00002-of-00030.safetensors" -> {"model-", 2, "00030"}; nothing for any other name.
struct NumberedName {
  std::string prefix;
  int number = 0;
  std::string total;
};

std::optional<NumberedName> parse_numbered(std::string_view name, std::string_view extension) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kDigits = 5;
  if (name.size() < extension.size() + 2 * kDigits + kOf.size() + 1) return std::nullopt;
  if (!name.ends_with(extension)) return std::nullopt;
  name.remove_suffix(extension.size());
  const auto digits = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const std::string_view total = name.substr(name.size() - kDigits);
  name.remove_suffix(kDigits);
  if (!digits(total) || !name.ends_with(kOf)) return std::nullopt;
  name.remove_suffix(kOf.size());
  const std::string_view number = name.substr(name.size() - kDigits);
  name.remove_suffix(kDigits);
  if (!digits(number) || name.empty() || name.back() != '-') return std::nullopt;
  return NumberedName{std::string(name), std::stoi(std::string(number)), std::string(total)};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(
      fs::symlink_status(path, ignored));  // a dangling link is there, and is an error later
}

std::vector<std::string> list_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end;
       it.increment(failure)) {
    names.push_back(it->path().filename().string());
    if (names.size() == kMaxShards) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<FileSet> read_indexed(const fs::path& folder, const std::string& index_file,
                             bool safetensors, OffenderReport& report) {
  FATHOM_ASSIGN(const std::string text, read_text_file(folder / index_file, kMaxIndexBytes));
  FileSet set;
  set.safetensors = safetensors;
  set.index_file = index_file;
  set.index = parse_shard_index(text, index_file, report);
  std::set<std::string> files;
  for (const auto& [tensor, file] : set.index->weight_map) files.insert(file);
  if (files.size() > kMaxShards) {
    return error(Code::kCorrupt,
                 fmt::format("{} names {} shards", (folder / index_file).string(), files.size()));
  }
  set.files.assign(files.begin(), files.end());
  return set;
}

// Complete numbered sets need no index; of an incomplete one the message names what is missing.
std::optional<Result<FileSet>> find_unindexed(const fs::path& folder,
                                              const std::vector<std::string>& names) {
  std::map<std::pair<std::string, std::string>, std::map<int, std::string>> sets;
  for (const std::string& name : names) {
    const auto parsed = parse_numbered(name, ".safetensors");
    if (parsed) sets[{parsed->prefix, parsed->total}][parsed->number] = name;
  }
  if (sets.empty()) return std::nullopt;
  if (sets.size() > 1) {
    return error(
        Code::kInvalidArgument,
        fmt::format(
            "{} has {} sets of numbered .safetensors files and no model.safetensors.index.json "
            "that says which one is meant; keep one set only",
            folder.string(), sets.size()));
  }
  const auto& [key, shards] = *sets.begin();
  const int total = std::stoi(key.second);
  std::vector<std::string> absent;
  FileSet set;
  set.safetensors = true;
  for (int i = 1; i <= total; ++i) {
    const auto found = shards.find(i);
    if (found == shards.end()) {
      absent.push_back(fmt::format("{}{:05}-of-{}.safetensors", key.first, i, key.second));
    } else {
      set.files.push_back(found->second);
    }
  }
  if (!absent.empty() || shards.size() != set.files.size()) {
    const size_t count = absent.size();
    if (absent.size() > kMaxListed) absent.resize(kMaxListed);
    return error(
        Code::kNotFound,
        fmt::format(
            "{} has no model.safetensors.index.json, and its set of {} shards is not complete; "
            "{} missing: {}{}. Download the missing files",
            folder.string(), total, count, fmt::join(absent, ", "),
            count > kMaxListed ? ", ..." : ""));
  }
  log::warn("{} has no model.safetensors.index.json; all {} numbered shards are there and are used",
            folder.string(), total);
  return set;
}

}  // namespace

ShardIndex parse_shard_index(std::string_view text, const std::string& file,
                             OffenderReport& report) {
  ShardIndex index;
  IndexVisitor visitor(file, index, report);
  const size_t before = report.size();
  if (Status status = visit_json(text, kMaxIndexDepth, visitor); !status.ok()) {
    report.add({"malformed index", "", "", status.message(), file});
  } else if (!visitor.has_map) {
    report.add({"malformed index", "", "an object weight_map", "none", file});
  } else if (index.weight_map.empty() && report.size() == before) {
    report.add({"malformed index", "", "at least one tensor in weight_map", "none", file});
  }
  return index;
}

Result<FileSet> find_weight_files(const fs::path& folder, OffenderReport& report) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure)) {
    return error(Code::kNotFound, fmt::format("{} is not a folder", folder.string()));
  }
  if (is_there(folder / "model.safetensors")) return FileSet{true, {"model.safetensors"}, {}, ""};
  const std::string safetensors_index = "model.safetensors.index.json";
  if (is_there(folder / safetensors_index))
    return read_indexed(folder, safetensors_index, true, report);
  const std::vector<std::string> names = list_names(folder);
  if (auto numbered = find_unindexed(folder, names)) return *std::move(numbered);
  if (is_there(folder / "pytorch_model.bin")) return FileSet{false, {"pytorch_model.bin"}, {}, ""};
  const std::string bin_index = "pytorch_model.bin.index.json";
  if (is_there(folder / bin_index)) return read_indexed(folder, bin_index, false, report);

  std::vector<std::string> similar;
  for (const std::string& name : names) {
    const bool weights = name.ends_with(".safetensors") || name.ends_with(".bin") ||
                         name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".gguf");
    if (weights && similar.size() < kMaxListed) similar.push_back(name);
  }
  return error(
      Code::kNotFound,
      fmt::format(
          "{} has no weights: none of model.safetensors, model.safetensors.index.json, "
          "model-00001-of-NNNNN.safetensors, pytorch_model.bin, pytorch_model.bin.index.json is "
          "there{}{}. Download the model's weight files into this folder",
          folder.string(), similar.empty() ? "" : "; it only has ", fmt::join(similar, ", ")));
}

}  // namespace fathom
