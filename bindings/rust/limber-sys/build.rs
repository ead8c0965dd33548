// SPDX-License-Identifier: BSD-3-Clause
//! Finds the library: in the folder that LIMBER_LIB_DIR names, else by pkg-config.
use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=LIMBER_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-link-lib=limber");
    if let Ok(folder) = env::var("LIMBER_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        return;
    }
    let asked = Command::new("pkg-config")
        .args(["--variable=libdir", "limber"])
        .output();
    match asked {
        Ok(found) if found.status.success() => {
            let folder = String::from_utf8_lossy(&found.stdout);
            println!("cargo:rustc-link-search=native={}", folder.trim());
        }
        _ => println!(
            "cargo:warning=pkg-config does not know limber; LIMBER_LIB_DIR names its folder"
        ),
    }
}
