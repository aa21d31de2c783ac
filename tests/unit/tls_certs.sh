#!/bin/sh
# SPDX-License-Identifier: MIT
#
# tls_certs.sh DIR: makes the certificates that test_tls needs, good and bad ones, in
# DIR. Each is NAME.pem with NAME.key; NAME-chain.pem has its issuer behind it.
set -eu
cd "$1"
exec 2>log

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

# The two certificate authorities, ours and one that nobody trusts.
root() {
    key "$1"
    openssl req -x509 -new -key "$1.key" -subj "/CN=$1" -days 30 -out "$1.pem" \
        -addext 'basicConstraints=critical,CA:TRUE' \
        -addext 'keyUsage=critical,keyCertSign,cRLSign'
}

# issue NAME ISSUER EXTENSIONS [OPTION...]: a key (if there is none) and a certificate.
issue() {
    name=$1 issuer=$2
    printf '%b' "$3" >"$name.ext"
    shift 3
    [ -f "$name.key" ] || key "$name"
    openssl req -new -key "$name.key" -subj "/CN=$name" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA "$issuer.pem" -CAkey "$issuer.key" \
        -CAcreateserial -extfile "$name.ext" -days 30 -out "$name.pem" "$@"
    cat "$name.pem" "$issuer.pem" >"$name-chain.pem"
}

# dated NAME FROM TO: signed by ca, valid from .. to.
dated() {
    : >index.txt
    echo 01 >serial
    printf '%b' "$here" >"$1.ext"
    key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    openssl ca -batch -config ca.cnf -in "$1.csr" -extfile "$1.ext" -startdate "$2" \
        -enddate "$3" -out "$1.pem" -notext
}

cat >ca.cnf <<'END'
[ca]
default_ca = here
[here]
database = index.txt
serial = serial
new_certs_dir = .
certificate = ca.pem
private_key = ca.key
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
END

# For servers that have to offer what is not safe any more.
cat >weak.cnf <<'END'
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = weak
[weak]
MinProtocol = TLSv1
CipherString = ALL:@SECLEVEL=0
END

names='subjectAltName=DNS:localhost,DNS:redis.test'
here="$names,IP:127.0.0.1\n"

root ca
root stranger
issue good ca "$here"
issue elsewhere ca 'subjectAltName=DNS:elsewhere.test,IP:10.9.9.9\n'
issue unknown stranger "$here"
issue client-only ca "${here}extendedKeyUsage=clientAuth\n"
issue middle ca 'basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n'
issue below middle "$here"
issue plain ca "$here"
issue below-plain plain "$here"
issue client ca 'extendedKeyUsage=clientAuth\n'
issue client-unknown stranger 'extendedKeyUsage=clientAuth\n'
issue sha1 ca "$here" -sha1
openssl genrsa -out short.key 1024
issue short ca "$here"
dated expired 20200101000000Z 20210101000000Z
dated not-yet 20900101000000Z 20910101000000Z
key self
openssl req -x509 -new -key self.key -subj /CN=self -days 30 -out self.pem \
    -addext "$names,IP:127.0.0.1"
cat client.pem client.key >client-both.pem
mkdir hashed
cp ca.pem hashed
openssl rehash hashed
echo made >made
