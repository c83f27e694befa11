// The server's certificate and the TLS settings it is used with.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "core/status.h"

namespace fathom {

// TLS 1.2 and newer. `cert_file`: PEM, the server's certificate first, then its chain. Refuses
// files that cannot be read, are not PEM, or do not belong together, naming the file.
Result<std::unique_ptr<boost::asio::ssl::context>> make_tls_context(const std::string& cert_file,
                                                                    const std::string& key_file);

}  // namespace fathom
