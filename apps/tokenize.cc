// `fathom tokenize` and `fathom detokenize`: text to token ids and back.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "apps/commands.h"
#include "apps/console.h"
#include "apps/jsonl.h"
#include "apps/text_model.h"
#include "stream/detokenizer.h"
#include "text/tokenizer.h"

namespace fathom::apps {
namespace {

constexpr uint64_t kMaxText = uint64_t{1} << 30;  // bytes of text from standard input

struct TokenizeOptions {
  std::string model;
  std::string text;
  bool text_given = false;
  bool jsonl = false;
  bool json = false;
  bool pieces = false;
  bool add_special_tokens = false;
  bool plain = false;
};

struct DetokenizeOptions {
  std::string model;
  std::vector<int32_t> ids;
  bool jsonl = false;
  bool json = false;
  bool pieces = false;
  bool skip_special_tokens = false;
};

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& model) {
  FATHOM_ASSIGN(const std::filesystem::path folder, resolve_text_model(model));
  return Tokenizer::load(folder);
}

Result<Json> tokenize_line(const Tokenizer& tokenizer, const TokenizeOptions& options,
                           const Json& value) {
  EncodeOptions encode{options.add_special_tokens, !options.plain};
  const Json* text = &value;
  if (value.is_object()) {
    FATHOM_ASSIGN(const Fields fields,
                  Fields::open(value, {"text", "add_special_tokens", "parse_special"}));
    text = fields.find("text");
    FATHOM_ASSIGN(encode.add_special_tokens,
                  fields.boolean("add_special_tokens", encode.add_special_tokens));
    FATHOM_ASSIGN(encode.parse_special, fields.boolean("parse_special", encode.parse_special));
  }
  if (text == nullptr || !text->is_string()) {
    return error(Code::kInvalidArgument,
                 "Expected a string, or an object with a string under \"text\".");
  }
  FATHOM_ASSIGN(const std::vector<int32_t> ids,
                tokenizer.encode(text->get_ref<const std::string&>(), encode));
  return Json(ids);
}

int tokenize(TokenizeOptions options) {
  const auto tokenizer = load_tokenizer(options.model);
  if (!tokenizer) return fail(tokenizer.error());
  if (options.jsonl) {
    return run_jsonl([&](const Json& value) { return tokenize_line(**tokenizer, options, value); });
  }
  if (!options.text_given) {
    Result<std::string> text = read_standard_input(kMaxText);
    if (!text) return fail(text.error());
    options.text = std::move(*text);
  }
  const auto ids = (*tokenizer)->encode(options.text, {options.add_special_tokens, !options.plain});
  if (!ids) return fail(ids.error());
  if (options.json) {
    print_json(*ids);
  } else if (options.pieces) {
    for (const int32_t id : *ids) {
      print(fmt::format("{:>8}  {}\n", id, json_line(std::string((*tokenizer)->token_bytes(id)))));
    }
  } else {
    print(fmt::format("{}\n", fmt::join(*ids, " ")));
  }
  return kExitOk;
}

Result<std::vector<int32_t>> ids_of(const Json& value) {
  if (!value.is_array()) return error(Code::kInvalidArgument, "Expected a list of token ids.");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const Json& item : value) {
    const bool integer = item.is_number_integer();
    if (!integer || item.get<int64_t>() < 0 ||
        item.get<int64_t>() > std::numeric_limits<int32_t>::max()) {
      return error(
          Code::kInvalidArgument,
          fmt::format("Item {} of the list is no token id (an integer from 0).", ids.size()));
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

// The pieces as they complete, one for each id, and the tail if the ids end inside a character.
Json pieces_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  IncrementalDetokenizer detokenizer(tokenizer, skip_special);
  Json pieces = Json::array();
  for (const int32_t id : ids) pieces.push_back(detokenizer.push(id));
  if (std::string tail = detokenizer.finish(); !tail.empty()) pieces.push_back(std::move(tail));
  return pieces;
}

Result<Json> detokenize_line(const Tokenizer& tokenizer, const DetokenizeOptions& options,
                             const Json& value) {
  bool skip_special = options.skip_special_tokens;
  const Json* list = &value;
  if (value.is_object()) {
    FATHOM_ASSIGN(const Fields fields, Fields::open(value, {"ids", "skip_special_tokens"}));
    list = fields.find("ids");
    FATHOM_ASSIGN(skip_special, fields.boolean("skip_special_tokens", skip_special));
  }
  if (list == nullptr) {
    return error(Code::kInvalidArgument,
                 "Expected a list of token ids, or an object with a list under \"ids\".");
  }
  FATHOM_ASSIGN(const std::vector<int32_t> ids, ids_of(*list));
  if (options.pieces) return pieces_of(tokenizer, ids, skip_special);
  return Json(tokenizer.decode(ids, skip_special));
}

int detokenize(const DetokenizeOptions& options) {
  const auto tokenizer = load_tokenizer(options.model);
  if (!tokenizer) return fail(tokenizer.error());
  if (options.jsonl) {
    return run_jsonl(
        [&](const Json& value) { return detokenize_line(**tokenizer, options, value); });
  }
  if (options.pieces) {
    const Json pieces = pieces_of(**tokenizer, options.ids, options.skip_special_tokens);
    if (options.json) {
      print_json(pieces);
    } else {
      for (const Json& piece : pieces) print(json_line(piece) + "\n");
    }
    return kExitOk;
  }
  const std::string text = (*tokenizer)->decode(options.ids, options.skip_special_tokens);
  options.json ? print_json(text) : print(text + "\n");
  return kExitOk;
}

}  // namespace

void add_tokenize(CLI::App& app, Action& action) {
  auto options = std::make_shared<TokenizeOptions>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into token ids");
  command->add_option("MODEL", options->model, "Folder with a tokenizer.json, or org/name")
      ->required();
  CLI::Option* text =
      command->add_option("TEXT", options->text, "The text; without it, standard input");
  CLI::Option* jsonl = command->add_flag(
      "--jsonl", options->jsonl,
      "Read one JSON value a line from standard input, write one list of ids a line: a string, or "
      "{\"text\": ..., \"add_special_tokens\": bool, \"parse_special\": bool}");
  text->excludes(jsonl);
  command->add_flag("--json", options->json, "Print the ids as a JSON list");
  command->add_flag("--pieces", options->pieces, "Print a line per token: id and text")
      ->excludes("--json")
      ->excludes(jsonl);
  command->add_flag("--add-special-tokens", options->add_special_tokens,
                    "Add what the post-processor of tokenizer.json adds (BOS in many models)");
  command->add_flag("--plain", options->plain,
                    "Encode what looks like a special token as ordinary text");
  command->footer(
      "Examples:\n"
      "  fathom tokenize MODEL \"Hello, world!\" --pieces\n"
      "  fathom tokenize MODEL < book.txt | wc -w\n"
      "  echo '\"Hello\"' | fathom tokenize MODEL --jsonl\n"
      "With --jsonl a line that cannot be answered gives {\"error\": ...}, and the exit code is "
      "1.");
  command->callback([options, text, &action] {
    options->text_given = text->count() > 0;
    action = [options] { return tokenize(*options); };
  });
}

void add_detokenize(CLI::App& app, Action& action) {
  auto options = std::make_shared<DetokenizeOptions>();
  CLI::App* command = app.add_subcommand("detokenize", "Turn token ids into text");
  command->add_option("MODEL", options->model, "Folder with a tokenizer.json, or org/name")
      ->required();
  CLI::Option* ids = command->add_option("IDS", options->ids, "Token ids")
                         ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()));
  CLI::Option* jsonl = command->add_flag(
      "--jsonl", options->jsonl,
      "Read one JSON value a line from standard input, write one string a line: a list of ids, or "
      "{\"ids\": [...], \"skip_special_tokens\": bool}");
  ids->excludes(jsonl);
  command->add_flag("--json", options->json, "Print the text as a JSON string");
  command->add_flag("--pieces", options->pieces,
                    "Print the list of pieces as they complete: one for each id (empty inside a "
                    "character), and a last one if the ids end inside a character");
  command->add_flag("--skip-special-tokens", options->skip_special_tokens,
                    "Leave special tokens out of the text");
  command->footer(
      "Examples:\n"
      "  fathom detokenize MODEL 19923 14 2058 3\n"
      "  echo '[19923, 14]' | fathom detokenize MODEL --jsonl\n"
      "  echo '{\"ids\": [0, 19923], \"skip_special_tokens\": true}' | "
      "fathom detokenize MODEL --jsonl --pieces");
  command->callback([options, ids, jsonl, &action] {
    if (ids->count() == 0 && jsonl->count() == 0) {
      throw CLI::ValidationError("IDS", "give token ids, or --jsonl to read them");
    }
    action = [options] { return detokenize(*options); };
  });
}

}  // namespace fathom::apps
