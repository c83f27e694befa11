// The web page at "/": its files, which are part of the binary, and the routes that serve them.
#pragma once

#include <string_view>
#include <vector>

#include "http/exchange.h"

namespace fathom {

struct PageFile {
  std::string_view name;  // "index.html", without a folder
  std::string_view bytes;
};

// All files of src/http/page as they were at the build; static storage.
const std::vector<PageFile>& page_files();

// GET / and GET /page/NAME. None needs a key: the page has no secrets, and asks for a key itself.
std::vector<Route> page_routes();

}  // namespace fathom
