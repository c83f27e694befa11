// The text face: tokenizer, chat template and detokenizer of a model folder.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "capi/boundary.h"
#include "capi/options.h"
#include "core/file.h"
#include "core/json_shape.h"
#include "engine/prompt.h"
#include "engine/text_parts.h"
#include "stream/detokenizer.h"
#include "text/chat_template.h"
#include "text/output_parser.h"
#include "text/tokenizer.h"
#include "weights/resolve.h"

// Either part may be missing: a folder with only a template can render.
struct fathom_text {
  std::unique_ptr<fathom::Tokenizer> tokenizer;
  std::optional<fathom::ChatTemplate> chat_template;
  std::string model_type;  // "" without config.json, which this face does not need
};
struct fathom_parser {
  fathom::OutputParser parser;
};
struct fathom_decoder {
  fathom::IncrementalDetokenizer detokenizer;
};

namespace fathom::capi {

namespace {

bool file_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A folder with a tokenizer or a template needs no config.json here.
Result<std::filesystem::path> resolve_text_folder(const std::string& model) {
  const std::filesystem::path folder(model);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    if (file_exists(folder / file)) return folder;
  }
  return resolve_model(model);
}

std::string read_model_type(const std::filesystem::path& folder) {
  constexpr uint64_t kMaxConfig = 16 << 20;
  const Result<std::string> text = read_text_file(folder / "config.json", kMaxConfig);
  if (!text || !check_json_shape(*text).ok()) return "";
  const Json config = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return "";
  const auto type = config.find("model_type");
  return type != config.end() && type->is_string() ? type->get<std::string>() : "";
}

Json id_or_null(std::optional<int32_t> id) {
  return id ? Json(*id) : Json(nullptr);
}

Status need_tokenizer(const fathom_text* text) {
  if (text == nullptr) return bad_call("text is NULL.");
  if (text->tokenizer == nullptr) {
    return Status(Code::kNotFound, "The model's folder has no tokenizer.json.");
  }
  return Status();
}

Result<std::string> render(const ChatTemplate& chat_template, const ChatPrompt& prompt) {
  FATHOM_ASSIGN(const Conversation conversation, parse_conversation(prompt));
  return chat_template.render(conversation);
}

Json text_info(const fathom_text& text) {
  Json info = {{"has_tokenizer", text.tokenizer != nullptr},
               {"has_chat_template", text.chat_template.has_value()}};
  if (text.tokenizer == nullptr) return info;
  const Tokenizer& tokenizer = *text.tokenizer;
  info["vocab_size"] = tokenizer.vocab_size();
  info["bos_token_id"] = id_or_null(tokenizer.bos_id());
  info["eos_token_id"] = id_or_null(tokenizer.eos_id());
  info["pad_token_id"] = id_or_null(tokenizer.pad_id());
  info["adds_bos"] = tokenizer.adds_bos();
  info["adds_eos"] = tokenizer.adds_eos();
  return info;
}

Status check_bytes(const void* data, size_t count, const char* name) {
  if (data == nullptr && count > 0) return bad_call(std::string(name) + " is NULL.");
  return Status();
}

const char* kind_name(OutputEvent::Kind kind) {
  switch (kind) {
    case OutputEvent::Kind::kReasoning:
      return "reasoning";
    case OutputEvent::Kind::kContent:
      return "content";
    case OutputEvent::Kind::kToolCallBegin:
      return "tool_call_begin";
    case OutputEvent::Kind::kToolCallArguments:
      return "tool_call_arguments";
  }
  return "content";
}

std::string events_json(const std::vector<OutputEvent>& events) {
  Json list = Json::array();
  for (const OutputEvent& event : events) {
    list.push_back({{"kind", kind_name(event.kind)}, {"index", event.index}, {"text", event.text}});
  }
  return dump(list);
}

void set_ids(fathom_buffer* buffer, const std::vector<int32_t>& ids) {
  set_buffer(buffer, {reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
}

}  // namespace

}  // namespace fathom::capi

using namespace fathom;        // the definitions below are C's
using namespace fathom::capi;  // NOLINT(google-build-using-namespace)

extern "C" {

fathom_status fathom_text_open(const char* model, const char* chat_template, fathom_text** text,
                               fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (model == nullptr || text == nullptr) return bad_call("model or text is NULL.");
    FATHOM_ASSIGN_OR_STATUS(const std::filesystem::path folder, resolve_text_folder(model));
    auto opened = std::make_unique<fathom_text>();
    if (file_exists(folder / "tokenizer.json")) {
      FATHOM_ASSIGN_OR_STATUS(opened->tokenizer, Tokenizer::load(folder));
    }
    FATHOM_ASSIGN_OR_STATUS(
        opened->chat_template,
        load_chat_template(folder, chat_template != nullptr ? chat_template : ""));
    if (opened->tokenizer == nullptr && !opened->chat_template) {
      return Status(Code::kNotFound, folder.string() + " has neither tokenizer nor chat template.");
    }
    opened->model_type = read_model_type(folder);
    *text = opened.release();
    return Status();
  });
}

void fathom_text_close(fathom_text* text) {
  quietly([&] { delete text; });
}

fathom_status fathom_text_info(const fathom_text* text, fathom_buffer* json, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (text == nullptr || json == nullptr) return bad_call("text or json is NULL.");
    set_buffer(json, dump(text_info(*text)));
    return Status();
  });
}

fathom_status fathom_text_encode(const fathom_text* text, const char* utf8, size_t bytes,
                                 int32_t flags, fathom_buffer* ids, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    FATHOM_RETURN_IF_ERROR(need_tokenizer(text));
    if (ids == nullptr) return bad_call("ids is NULL.");
    FATHOM_RETURN_IF_ERROR(check_bytes(utf8, bytes, "utf8"));
    constexpr int32_t kKnown = FATHOM_ENCODE_ADD_SPECIAL | FATHOM_ENCODE_PLAIN;
    if ((flags & ~kKnown) != 0) {
      return bad_call("flags is " + std::to_string(flags) +
                      "; it must be 0 or a sum of FATHOM_ENCODE_ADD_SPECIAL and "
                      "FATHOM_ENCODE_PLAIN.");
    }
    EncodeOptions options;
    options.add_special_tokens = (flags & FATHOM_ENCODE_ADD_SPECIAL) != 0;
    options.parse_special = (flags & FATHOM_ENCODE_PLAIN) == 0;
    FATHOM_ASSIGN_OR_STATUS(const std::vector<int32_t> encoded,
                            text->tokenizer->encode({utf8, bytes}, options));
    set_ids(ids, encoded);
    return Status();
  });
}

fathom_status fathom_text_decode(const fathom_text* text, const int32_t* ids, size_t count,
                                 int32_t skip_special_tokens, fathom_buffer* utf8,
                                 fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    FATHOM_RETURN_IF_ERROR(need_tokenizer(text));
    if (utf8 == nullptr) return bad_call("utf8 is NULL.");
    FATHOM_RETURN_IF_ERROR(check_bytes(ids, count, "ids"));
    const std::vector<int32_t> list(ids, ids + count);
    set_buffer(utf8, text->tokenizer->decode(list, skip_special_tokens != 0));
    return Status();
  });
}

fathom_status fathom_text_render(const fathom_text* text, const char* messages_json,
                                 const char* tools_json, const char* kwargs_json,
                                 fathom_buffer* utf8, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (text == nullptr || messages_json == nullptr || utf8 == nullptr) {
      return bad_call("text, messages_json or utf8 is NULL.");
    }
    if (!text->chat_template) {
      return Status(Code::kNotFound, "The model's folder has no chat template.");
    }
    const ChatPrompt prompt{messages_json, tools_json != nullptr ? tools_json : "",
                            kwargs_json != nullptr ? kwargs_json : ""};
    FATHOM_ASSIGN_OR_STATUS(const std::string rendered, render(*text->chat_template, prompt));
    set_buffer(utf8, rendered);
    return Status();
  });
}

fathom_status fathom_parser_new(const fathom_text* text, const char* prompt, size_t prompt_bytes,
                                fathom_parser** parser, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (text == nullptr || parser == nullptr) return bad_call("text or parser is NULL.");
    FATHOM_RETURN_IF_ERROR(check_bytes(prompt, prompt_bytes, "prompt"));
    OutputFormat format;
    format = detect_output_format(
        text->chat_template ? text->chat_template->source(true) : std::string_view(),
        text->model_type);
    *parser = new fathom_parser{OutputParser(format, opens_reasoning({prompt, prompt_bytes}))};
    return Status();
  });
}

void fathom_parser_free(fathom_parser* parser) {
  delete parser;
}

fathom_status fathom_parser_feed(fathom_parser* parser, const char* utf8, size_t bytes,
                                 fathom_buffer* json, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (parser == nullptr || json == nullptr) return bad_call("parser or json is NULL.");
    FATHOM_RETURN_IF_ERROR(check_bytes(utf8, bytes, "utf8"));
    set_buffer(json, events_json(parser->parser.feed({utf8, bytes})));
    return Status();
  });
}

fathom_status fathom_parser_finish(fathom_parser* parser, fathom_buffer* json,
                                   fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (parser == nullptr || json == nullptr) return bad_call("parser or json is NULL.");
    set_buffer(json, events_json(parser->parser.finish()));
    return Status();
  });
}

fathom_status fathom_decoder_new(const fathom_text* text, int32_t skip_special_tokens,
                                 fathom_decoder** decoder, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    FATHOM_RETURN_IF_ERROR(need_tokenizer(text));
    if (decoder == nullptr) return bad_call("decoder is NULL.");
    *decoder =
        new fathom_decoder{IncrementalDetokenizer(*text->tokenizer, skip_special_tokens != 0)};
    return Status();
  });
}

void fathom_decoder_free(fathom_decoder* decoder) {
  delete decoder;
}

fathom_status fathom_decoder_push(fathom_decoder* decoder, const int32_t* ids, size_t count,
                                  fathom_buffer* utf8, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (decoder == nullptr || utf8 == nullptr) return bad_call("decoder or utf8 is NULL.");
    FATHOM_RETURN_IF_ERROR(check_bytes(ids, count, "ids"));
    std::string piece;
    for (size_t i = 0; i < count; ++i) piece += decoder->detokenizer.push(ids[i]);
    set_buffer(utf8, piece);
    return Status();
  });
}

fathom_status fathom_decoder_finish(fathom_decoder* decoder, fathom_buffer* utf8,
                                    fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (decoder == nullptr || utf8 == nullptr) return bad_call("decoder or utf8 is NULL.");
    set_buffer(utf8, decoder->detokenizer.finish());
    return Status();
  });
}

}  // extern "C"
