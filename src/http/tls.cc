// Reads certificate and key.
#include "http/tls.h"

#include <fmt/format.h>
#include <openssl/ssl.h>

namespace fathom {

Result<std::unique_ptr<boost::asio::ssl::context>> make_tls_context(const std::string& cert_file,
                                                                    const std::string& key_file) {
  namespace ssl = boost::asio::ssl;
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  boost::system::error_code ec;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_compression, ec);
  if (!ec && SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION) != 1) {
    return error(Code::kInternal, "TLS 1.2 cannot be set as the oldest version.");
  }
  context->use_certificate_chain_file(cert_file, ec);
  if (ec) {
    return error(Code::kInvalidArgument,
                 fmt::format("The certificate {} cannot be used ({}): it must be a readable PEM "
                             "file with the server's certificate first.",
                             cert_file, ec.message()));
  }
  // Without this an encrypted key would ask for its password on the terminal.
  context->set_password_callback(
      [](size_t, ssl::context::password_purpose) { return std::string(); }, ec);
  context->use_private_key_file(key_file, ssl::context::pem, ec);
  if (ec) {
    return error(
        Code::kInvalidArgument,
        fmt::format("The private key {} cannot be used with the certificate {} ({}): it "
                    "must be the readable, unencrypted PEM file of that certificate's key.",
                    key_file, cert_file, ec.message()));
  }
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return error(Code::kInvalidArgument,
                 fmt::format("The private key {} does not belong to the certificate {}.", key_file,
                             cert_file));
  }
  return context;
}

}  // namespace fathom
