#!/bin/sh
# What the tests need besides Python, as Debian packages.  Without the right to install them, says what will be skipped.
set -u

has_java() {
    command -v java >/dev/null 2>&1 || [ -x "${JAVA_HOME:-/nonexistent}/bin/java" ]
}

install() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "Installing $1"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

if ! has_java; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
    fi
    # Debian 12 has Java 17, later ones only newer ones.
    install openjdk-17-jre-headless || install default-jre-headless ||
        echo "No Java: the tests that use Spark will be skipped. On Debian: sudo apt-get install openjdk-17-jre-headless"
fi

has_postgresql() {
    command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1
}

if ! has_postgresql; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
    fi
    install postgresql ||
        echo "No PostgreSQL: the tests that use it will be skipped. On Debian: sudo apt-get install postgresql"
fi

if ! command -v redis-server >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
    fi
    install redis-server ||
        echo "No Redis: the tests that use it will be skipped. On Debian: sudo apt-get install redis-server"
fi

if ! command -v mosquitto >/dev/null 2>&1 && ! [ -x /usr/sbin/mosquitto ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
    fi
    install mosquitto ||
        echo "No Mosquitto: the tests that use it will be skipped. On Debian: sudo apt-get install mosquitto"
fi

if ! command -v nats-server >/dev/null 2>&1 && ! [ -x /usr/sbin/nats-server ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
    fi
    install nats-server ||
        echo "No NATS: the tests that use it will be skipped. On Debian: sudo apt-get install nats-server"
fi

command -v openssl >/dev/null 2>&1 || install openssl ||
    echo "No OpenSSL: the tests of encrypted connections will be skipped. On Debian: sudo apt-get install openssl"

if ! command -v chromium >/dev/null 2>&1 || ! command -v chromedriver >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq
    fi
    { install chromium && install chromium-driver && install fonts-dejavu-core; } ||
        echo "No Chromium: the tests of the page will be skipped. On Debian: sudo apt-get install chromium chromium-driver"
fi

# The server of BigQuery's API has an environment of its own, since its requirements exclude those of penstock.
bigquery=.bigquery/venv
if ! [ -e "$bigquery/installed" ]; then
    echo "Installing a server with BigQuery's API into .bigquery"
    { "${PYTHON:-python3}" -m venv "$bigquery" &&
        "$bigquery/bin/python" -m pip --disable-pip-version-check --quiet install bqemulator==1.4.0 duckdb==1.5.5 \
            duckdb-extensions==1.5.5 duckdb-extension-spatial==1.5.5 numpy &&
        "$bigquery/bin/python" -c 'import duckdb_extensions; duckdb_extensions.import_extension("spatial")' &&
        touch "$bigquery/installed"; } ||
        echo "No server with BigQuery's API: the tests that use it will be skipped."
fi
