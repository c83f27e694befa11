// Folder, cache folder or org/name: how a model argument becomes the folder with its config.json.
#include "weights/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "core/file.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRefBytes = 4096;  // a ref file holds one commit hash
constexpr size_t kMaxListed = 10;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path expand_home(std::string_view path) {
  if (path == "~" || path.starts_with("~/")) {
    const std::string home = variable("HOME");
    if (!home.empty()) return fs::path(home) / path.substr(std::min<size_t>(2, path.size()));
  }
  return fs::path(path);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool has_config(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.json", ignored);
}

// The cache's folder, and why it is that one.
struct HubCache {
  fs::path folder;
  std::string reason;
};

HubCache hub_cache() {
  // HUGGINGFACE_HUB_CACHE is the older name of HF_HUB_CACHE, which the library still honours.
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string value = variable(name); !value.empty()) return {expand_home(value), name};
  }
  if (const std::string value = variable("HF_HOME"); !value.empty())
    return {expand_home(value) / "hub", "HF_HOME"};
  if (const std::string value = variable("XDG_CACHE_HOME"); !value.empty()) {
    return {expand_home(value) / "huggingface" / "hub", "XDG_CACHE_HOME"};
  }
  return {expand_home("~/.cache/huggingface/hub"), "the default"};
}

// Snapshots with a config.json, newest first.
std::vector<fs::path> usable_snapshots(const fs::path& repo) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code failure;
  for (fs::directory_iterator it(repo / "snapshots", failure), end; !failure && it != end;
       it.increment(failure)) {
    std::error_code ignored;
    if (has_config(it->path()))
      found.emplace_back(fs::last_write_time(it->path(), ignored), it->path());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return b < a; });
  std::vector<fs::path> snapshots;
  for (auto& [time, path] : found) snapshots.push_back(std::move(path));
  return snapshots;
}

// The commit that a branch, tag or ref names.
std::optional<std::string> read_ref(const fs::path& repo, std::string_view revision) {
  if (revision.starts_with("refs/")) revision.remove_prefix(5);
  for (const fs::path& part : fs::path(revision)) {
    if (part == ".." || part == "/") return std::nullopt;
  }
  const fs::path path = repo / "refs" / fs::path(revision);
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  Result<std::string> text = read_text_file(path, kMaxRefBytes);
  if (!text) return std::nullopt;
  text->erase(std::min(text->find_first_of(" \r\n\t"), text->size()));
  if (text->empty() || text->find('/') != std::string::npos || *text == "..") return std::nullopt;
  return *std::move(text);
}

std::string list_snapshots(const std::vector<fs::path>& snapshots) {
  std::vector<std::string> names;
  for (const fs::path& path : snapshots) {
    if (names.size() < kMaxListed) names.push_back(path.filename().string());
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// One snapshot of a `models--org--name` folder.
Result<fs::path> choose_snapshot(const fs::path& repo, std::string_view revision) {
  const std::vector<fs::path> snapshots = usable_snapshots(repo);
  const std::optional<std::string> commit = read_ref(repo, revision.empty() ? "main" : revision);
  if (commit && has_config(repo / "snapshots" / *commit)) return repo / "snapshots" / *commit;
  if (revision.empty()) {
    if (!snapshots.empty()) return snapshots.front();
    return error(
        Code::kNotFound,
        fmt::format(
            "{} has no snapshot with a config.json; the download is incomplete. Download the model "
            "again",
            repo.string()));
  }
  std::vector<fs::path> matching;
  for (const fs::path& snapshot : snapshots) {
    const std::string name = snapshot.filename().string();
    if (name == revision) return snapshot;
    if (name.starts_with(revision)) matching.push_back(snapshot);
  }
  if (matching.size() == 1) return matching.front();
  if (matching.size() > 1) {
    return error(Code::kInvalidArgument,
                 fmt::format("revision {} fits several snapshots in {}: {}. Give more of the "
                             "commit hash",
                             revision, repo.string(), list_snapshots(matching)));
  }
  return error(
      Code::kNotFound,
      fmt::format(
          "{} has no revision {}{}; its snapshots with a config.json: {}. Download that revision "
          "first",
          repo.string(), revision,
          commit ? fmt::format(" (it is commit {}, whose snapshot is incomplete)", *commit) : "",
          list_snapshots(snapshots)));
}

// org/name or name, each of letters, digits, '-', '_' and '.'.
struct HubName {
  std::string repo;  // org/name
  std::string revision;
};

std::optional<HubName> parse_hub_name(std::string_view model) {
  HubName parsed;
  if (const size_t at = model.find('@'); at != std::string_view::npos) {
    parsed.revision = std::string(model.substr(at + 1));
    model = model.substr(0, at);
    if (parsed.revision.empty()) return std::nullopt;
  }
  size_t slashes = 0;
  char previous = '/';
  for (const char c : model) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    if (!word && c != '/') return std::nullopt;
    if (previous == '/' && (c == '/' || c == '.')) return std::nullopt;
    if (c == '/') ++slashes;
    previous = c;
  }
  if (previous == '/' || slashes > 1) return std::nullopt;
  parsed.repo = std::string(model);
  return parsed;
}

fs::path repo_folder(const fs::path& cache, const std::string& repo) {
  std::string name = "models--" + repo;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return cache / name;
}

Result<fs::path> resolve_folder(const fs::path& folder) {
  if (has_config(folder)) return folder;
  if (is_folder(folder / "snapshots")) return choose_snapshot(folder, "");
  const fs::path whole =
      folder.filename().empty() ? folder.parent_path() : folder;  // without a trailing '/'
  if (whole.filename() == "snapshots" && !usable_snapshots(whole.parent_path()).empty()) {
    return choose_snapshot(whole.parent_path(), "");
  }
  std::error_code why;
  const fs::file_type type = fs::status(folder / "config.json", why).type();
  if (why && type != fs::file_type::not_found) {
    return error(
        Code::kInvalidArgument,
        fmt::format("{} cannot be opened: {}", (folder / "config.json").string(), why.message()));
  }
  if (type != fs::file_type::not_found) {
    return error(Code::kInvalidArgument,
                 fmt::format("{} is not a regular file", (folder / "config.json").string()));
  }
  return error(
      Code::kNotFound,
      fmt::format("{} has no config.json, so it is not a model folder. Give the folder that "
                  "holds config.json and the weights",
                  folder.string()));
}

}  // namespace

Result<fs::path> resolve_model(std::string_view model) {
  if (model.empty() || model.find('\0') != std::string_view::npos) {
    return error(Code::kInvalidArgument, "the model is not named; give a folder or org/name");
  }
  const fs::path path = expand_home(model);
  std::error_code ignored;
  if (is_folder(path)) return resolve_folder(path);
  if (fs::exists(path, ignored)) {
    return error(Code::kInvalidArgument,
                 fmt::format("{} is a file; give the folder that holds config.json and the weights",
                             path.string()));
  }
  const std::optional<HubName> name = parse_hub_name(model);
  if (!name) {
    return error(
        Code::kNotFound,
        fmt::format("there is no folder {}. Give a model folder, or org/name of a model in "
                    "the Hugging Face cache",
                    path.string()));
  }
  const HubCache cache = hub_cache();
  const fs::path repo = repo_folder(cache.folder, name->repo);
  if (is_folder(repo)) return choose_snapshot(repo, name->revision);
  return error(Code::kNotFound,
               fmt::format("model {} was not found. Looked for a folder {} and for {} (the cache "
                           "folder is {} by {}). "
                           "Nothing is downloaded here: download it first, for example with "
                           "`huggingface-cli download {}`, or give the model's folder",
                           model, fs::absolute(path, ignored).string(), repo.string(),
                           cache.folder.string(), cache.reason, name->repo));
}

}  // namespace fathom
