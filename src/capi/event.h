// OwnedEvent: a stream event in the form that C sees, with the memory it points into.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fathom/fathom.h"
#include "stream/token_stream.h"

namespace fathom::capi {

struct OwnedEvent : fathom_event {
  OwnedEvent(uint64_t request_number, std::string id, void* request_user, int choice_index);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  void fill(StreamEvent event);

 private:
  std::string id_;
  StreamEvent event_;
  // A list of TokenLogprobs, flat.
  struct Logprobs {
    std::vector<float> chosen;
    std::vector<size_t> top_begin{0};
    std::vector<int32_t> top_ids;
    std::vector<float> top_logprobs;
    void fill(const std::vector<TokenLogprobs>& entries);
  };
  Logprobs logprobs_;
  Logprobs prompt_logprobs_;
};

}  // namespace fathom::capi
