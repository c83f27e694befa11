// The text face: tokenizer, chat template and detokenizer of a model folder.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "capi/boundary.h"
#include "capi/options.h"
#include "stream/detokenizer.h"
#include "text/tokenizer.h"
#include "weights/resolve.h"

struct fathom_text {
  std::unique_ptr<fathom::Tokenizer> tokenizer;
};
struct fathom_decoder {
  fathom::IncrementalDetokenizer detokenizer;
};

namespace fathom::capi {

namespace {

// A folder with a tokenizer needs no config.json here.
Result<std::filesystem::path> resolve_text_folder(const std::string& model) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(model) / "tokenizer.json", ignored)) {
    return std::filesystem::path(model);
  }
  return resolve_model(model);
}

Json id_or_null(std::optional<int32_t> id) {
  return id ? Json(*id) : Json(nullptr);
}

Status check_bytes(const void* data, size_t count, const char* name) {
  if (data == nullptr && count > 0) return bad_call(std::string(name) + " is NULL.");
  return Status();
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
  (void)chat_template;
  return guarded(error, [&]() -> Status {
    if (model == nullptr || text == nullptr) return bad_call("model or text is NULL.");
    FATHOM_ASSIGN_OR_STATUS(const std::filesystem::path folder, resolve_text_folder(model));
    auto opened = std::make_unique<fathom_text>();
    FATHOM_ASSIGN_OR_STATUS(opened->tokenizer, Tokenizer::load(folder));
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
    const Tokenizer& tokenizer = *text->tokenizer;
    set_buffer(json, dump({{"vocab_size", tokenizer.vocab_size()},
                           {"bos_token_id", id_or_null(tokenizer.bos_id())},
                           {"eos_token_id", id_or_null(tokenizer.eos_id())},
                           {"pad_token_id", id_or_null(tokenizer.pad_id())},
                           {"adds_bos", tokenizer.adds_bos()},
                           {"adds_eos", tokenizer.adds_eos()}}));
    return Status();
  });
}

fathom_status fathom_text_encode(const fathom_text* text, const char* utf8, size_t bytes,
                                 int32_t flags, fathom_buffer* ids, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (text == nullptr || ids == nullptr) return bad_call("text or ids is NULL.");
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
    if (text == nullptr || utf8 == nullptr) return bad_call("text or utf8 is NULL.");
    FATHOM_RETURN_IF_ERROR(check_bytes(ids, count, "ids"));
    const std::vector<int32_t> list(ids, ids + count);
    set_buffer(utf8, text->tokenizer->decode(list, skip_special_tokens != 0));
    return Status();
  });
}

fathom_status fathom_decoder_new(const fathom_text* text, int32_t skip_special_tokens,
                                 fathom_decoder** decoder, fathom_buffer* error) {
  return guarded(error, [&]() -> Status {
    if (text == nullptr || decoder == nullptr) return bad_call("text or decoder is NULL.");
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
