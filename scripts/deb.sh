#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the Debian package of a gabion that is built already, and prints the package's path. The same commit and
# program give the same package, byte by byte.
# usage: deb.sh GABION FOLDER      FOLDER: where the package goes
set -euo pipefail
GABION=$(realpath "${1:?usage: deb.sh GABION FOLDER}")
FOLDER=${2:?usage: deb.sh GABION FOLDER}
mkdir -p "$FOLDER"; FOLDER=$(realpath "$FOLDER")
cd "$(dirname "$0")/.."
area=$(mktemp -d "${TMPDIR:-/tmp}/gabion-deb.XXXXXX")
trap 'rm -rf "$area"' EXIT
tree=$area/debian/gabion
umask 022

# The time of the commit is the time of all files. Without git, as in an unpacked release, it is that of Cargo.toml.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
release=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# A commit that is no release comes before the release that it is on the way to.
version=$release
commit=$(git rev-parse --short=9 HEAD 2>/dev/null || true)
if [ -n "$commit" ] && ! git describe --exact-match --match "v$release" >/dev/null 2>&1; then
  version=$release~git$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$commit
fi
architecture=$(dpkg --print-architecture)

put() { install -D -m "$1" "$2" "$tree/$3"; } # MODE FILE PLACE
packed() { mkdir -p "$(dirname "$tree/$1")"; gzip -9 -n >"$tree/$1"; } # PLACE, of standard input

program() {
  local shares=$tree/usr/share
  put 755 "$GABION" usr/bin/gabion
  strip --strip-unneeded --remove-section=.comment --remove-section=.note "$tree/usr/bin/gabion"
  "$GABION" man "$shares/man/man1"
  gzip -9 -n "$shares"/man/man1/*.1
  mkdir -p "$shares/bash-completion/completions" "$shares/zsh/vendor-completions" "$shares/fish/vendor_completions.d"
  "$GABION" completions bash >"$shares/bash-completion/completions/gabion"
  "$GABION" completions zsh >"$shares/zsh/vendor-completions/_gabion"
  "$GABION" completions fish >"$shares/fish/vendor_completions.d/gabion.fish"
}

# Debian 12 wants units in /lib; later ones look there too, for it is the same folder as /usr/lib.
system() {
  put 644 packaging/gabion.service lib/systemd/system/gabion.service
  put 644 packaging/gabion.sysusers usr/lib/sysusers.d/gabion.conf
  put 644 packaging/gabion.tmpfiles usr/lib/tmpfiles.d/gabion.conf
  put 644 packaging/gabion.default etc/default/gabion
  mkdir -p "$tree/etc/gabion"
}

documents() {
  local page docs=usr/share/doc/gabion
  for page in docs/operations/*.md; do put 644 "$page" "$docs/operations/${page##*/}"; done
  put 644 docs/clients.md $docs/clients.md
  put 644 packaging/debian/copyright $docs/copyright
  python3 scripts/licences.py | packed $docs/licences-of-crates.gz
  {
    printf 'gabion (%s) unstable; urgency=medium\n\n  * Built of %s.\n\n' "$version" "${commit:-release $release}"
    printf ' -- %s  %s\n' "$(sed -n 's/^Maintainer: //p' packaging/debian/control)" \
      "$(date -R -d "@$SOURCE_DATE_EPOCH")"
  } | packed $docs/changelog.gz
}

control() {
  local libraries size
  # dpkg-shlibdeps looks for the file that a source package has.
  printf 'Source: gabion\n\nPackage: gabion\nArchitecture: any\nDescription: gabion\n' >"$area/debian/control"
  libraries=$(cd "$area" && dpkg-shlibdeps -O -edebian/gabion/usr/bin/gabion | sed -n 's/^shlibs:Depends=//p')
  [ -n "$libraries" ] || { echo "deb: dpkg-shlibdeps names no library" >&2; return 1; }
  size=$(du --summarize --apparent-size --block-size=1KiB "$tree" | cut -f1)
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@LIBRARIES@/$libraries/" \
    -e "s/@SIZE@/$size/" packaging/debian/control >"$tree/DEBIAN/control"
  install -m 755 packaging/debian/{postinst,prerm,postrm} "$tree/DEBIAN/"
  echo /etc/default/gabion >"$tree/DEBIAN/conffiles"
  (cd "$tree" && find lib usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"
}

mkdir -p "$tree/DEBIAN"
program; system; documents; control
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
package=$FOLDER/gabion_${version}_$architecture.deb
# A tenth larger than with the usual level, and made in a quarter of the time.
dpkg-deb --root-owner-group -Zxz -z3 --build "$tree" "$package" >"$area/said" || { cat "$area/said" >&2; exit 1; }
echo "$package"
