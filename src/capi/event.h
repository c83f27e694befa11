// OwnedEvent: a stream event in the form that C sees, with the memory it points into.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fathom/fathom.h"
#include "stream/token_stream.h"

namespace fathom::capi {

struct OwnedEvent : fathom_event {
  OwnedEvent(uint64_t request_number, std::string id, void* request_user);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;

  void fill(StreamEvent event);

 private:
  std::string id_;
  StreamEvent event_;
  std::vector<float> logprobs_;
  std::vector<size_t> top_begin_;
  std::vector<int32_t> top_ids_;
  std::vector<float> top_logprobs_;
};

}  // namespace fathom::capi
