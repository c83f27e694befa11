// HTTPS with a certificate made here.
#include "http/tls.h"

#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <boost/asio/ssl/stream.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/unit/http/test_server.h"

namespace fathom {
namespace {

namespace ssl = boost::asio::ssl;
using boost::asio::ip::tcp;

// A self-signed certificate and its key as files; removed at the end.
class Certificate {
 public:
  Certificate() {
    folder_ = std::filesystem::temp_directory_path() /
              ("fathom_tls_" + std::to_string(getpid()) + "_" + std::to_string(++count_));
    std::filesystem::create_directories(folder_);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), X509_free);
    X509_set_version(x509.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509.get()), -60);
    X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
    X509_set_pubkey(x509.get(), key.get());
    X509_NAME* name = X509_get_subject_name(x509.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(x509.get(), name);
    X509_sign(x509.get(), key.get(), EVP_sha256());
    write(cert(), [&](FILE* file) { PEM_write_X509(file, x509.get()); });
    write(this->key(), [&](FILE* file) {
      PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    write(encrypted_key(), [&](FILE* file) {
      PEM_write_PrivateKey(file, key.get(), EVP_aes_128_cbc(),
                           reinterpret_cast<const unsigned char*>("word"), 4, nullptr, nullptr);
    });
  }
  ~Certificate() { std::filesystem::remove_all(folder_); }

  std::string cert() const { return folder_ / "cert.pem"; }
  std::string key() const { return folder_ / "key.pem"; }
  std::string encrypted_key() const { return folder_ / "encrypted.pem"; }

 private:
  template <typename F>
  static void write(const std::string& path, F&& writer) {
    FILE* file = std::fopen(path.c_str(), "w");
    writer(file);
    std::fclose(file);
  }

  static inline int count_ = 0;
  std::filesystem::path folder_;
};

ServerOptions tls_options(const Certificate& certificate) {
  ServerOptions options;
  options.tls_cert_file = certificate.cert();
  options.tls_key_file = certificate.key();
  return options;
}

class TlsClient {
 public:
  TlsClient(uint16_t port, const std::string& trusted) : stream_(connect(port), trust(trusted)) {
    stream_.handshake(ssl::stream_base::client);
  }
  TlsClient& send(const std::string& bytes) {
    boost::asio::write(stream_, boost::asio::buffer(bytes));
    return *this;
  }
  Reply reply() { return read_reply(stream_, buffer_); }
  ssl::stream<tcp::socket>& stream() { return stream_; }

 private:
  tcp::socket connect(uint16_t port) {
    tcp::socket socket(io_);
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), port});
    return socket;
  }
  ssl::context& trust(const std::string& file) {
    context_.set_verify_mode(ssl::verify_peer);
    context_.load_verify_file(file);
    return context_;
  }

  boost::asio::io_context io_;
  ssl::context context_{ssl::context::tls_client};
  ssl::stream<tcp::socket> stream_;
  boost::beast::flat_buffer buffer_;
};

TEST(HttpTls, ServesRequestsAndStreams) {
  const Certificate certificate;
  TestServer server(tls_options(certificate));
  EXPECT_EQ(server.server->url().substr(0, 8), "https://");
  TlsClient client(server.server->port(), certificate.cert());
  const std::string large(300000, 'x');
  EXPECT_EQ(client.send(post("/v1/echo", large)).reply().body, large);
  client.send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  held->post([held] {
    held->begin_stream({200, "text/event-stream", {}, ""});
    held->send("data: 1\n\n");
    held->end_stream();
  });
  EXPECT_EQ(client.reply().body, "data: 1\n\n");
}

TEST(HttpTls, SaysGoodbye) {
  const Certificate certificate;
  TestServer server(tls_options(certificate));
  TlsClient client(server.server->port(), certificate.cert());
  EXPECT_EQ(client.send(get("/open", "Connection: close\r\n")).reply().body, "open");
  char byte = 0;
  boost::system::error_code ec;
  client.stream().read_some(boost::asio::buffer(&byte, 1), ec);
  EXPECT_EQ(ec, boost::asio::error::eof);  // a close_notify, not a cut connection
}

TEST(HttpTls, NoticesADisconnect) {
  const Certificate certificate;
  TestServer server(tls_options(certificate));
  auto client = std::make_unique<TlsClient>(server.server->port(), certificate.cert());
  client->send(post("/v1/hold", "{}"));
  const auto held = server.held.take();
  client.reset();
  EXPECT_TRUE(eventually([&] { return server.closed == 1; }));
}

TEST(HttpTls, SurvivesPlainAndBrokenHandshakes) {
  const Certificate certificate;
  ServerOptions options = tls_options(certificate);
  options.header_timeout = std::chrono::milliseconds(50);
  TestServer server(options);
  HttpClient plain = server.client();
  EXPECT_EQ(plain.send(get("/open")).reply().status, 0);
  HttpClient silent = server.client();
  EXPECT_TRUE(silent.ended());
  HttpClient half = server.client();
  half.send("\x16\x03\x01").close();
  TlsClient good(server.server->port(), certificate.cert());
  EXPECT_EQ(good.send(get("/open")).reply().body, "open");
}

TEST(HttpTls, SaysWhatIsWrongWithTheFiles) {
  const Certificate one, other;
  const auto message = [](const std::string& cert, const std::string& key) {
    const auto context = make_tls_context(cert, key);
    return context ? std::string() : context.error().message();
  };
  EXPECT_EQ(message(one.cert(), one.key()), "");
  EXPECT_NE(message("/no/such.pem", one.key()).find("/no/such.pem"), std::string::npos);
  EXPECT_NE(message(one.key(), one.key()).find("certificate"), std::string::npos);
  EXPECT_NE(message(one.cert(), "/no/key.pem").find("/no/key.pem"), std::string::npos);
  EXPECT_NE(message(one.cert(), one.cert()).find("private key"), std::string::npos);
  EXPECT_NE(message(one.cert(), other.key()), "");  // of another certificate
  EXPECT_NE(message(one.cert(), one.encrypted_key()).find("unencrypted"), std::string::npos);
  ServerOptions options;
  options.tls_cert_file = one.cert();
  EXPECT_THROW(TestServer{options}, std::runtime_error);
}

}  // namespace
}  // namespace fathom
