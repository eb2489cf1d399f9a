/**
 * Reads files with certificates and private keys, in PEM form.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";

import { Secret } from "./secret.ts";
import { codeOf } from "./yaml-file.ts";

type ReadFile = (path: string) => string;

/** A certificate with its chain, and its private key, both as PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: Secret;
}

/**
 * Reads a file with certificate authorities. Refuses a file without certificates, because TLS itself would accept it as an
 * empty list and then trust no server.
 */
export function readAuthorities(file: string, readFile: ReadFile): { pem: string } | { fault: string } {
  let pem: string;
  try {
    pem = readFile(file);
  } catch (error) {
    return { fault: `${JSON.stringify(file)} cannot be read${codeOf(error)}` };
  }
  return holdsCertificates(pem)
    ? { pem }
    : { fault: `${JSON.stringify(file)} contains no certificate, or an invalid one` };
}

const BLOCK = /-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----/gs;

function holdsCertificates(text: string): boolean {
  const blocks = text.match(BLOCK) ?? [];
  const isBroken = text.split("-----BEGIN CERTIFICATE-----").length - 1 !== blocks.length;
  return blocks.length > 0 && !isBroken && blocks.every(isCertificate);
}

function isCertificate(block: string): boolean {
  try {
    return new X509Certificate(block).raw.length > 0;
  } catch {
    return false;
  }
}

/** @returns the pair, or the setting of the wrong file and what is wrong */
export function readPair(
  certFile: string,
  keyFile: string,
  readFile: ReadFile,
): CertificatePair | { readonly of: "certFile" | "keyFile"; readonly fault: string } {
  const certificate = readAuthorities(certFile, readFile);
  const expected = "expected the path of a file with a certificate in PEM form";
  if ("fault" in certificate) return { of: "certFile", fault: `${certificate.fault}; ${expected}` };
  const { pem: cert } = certificate;
  try {
    const key = readFile(keyFile);
    if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      return { cert, key: new Secret(key) };
    return { of: "keyFile", fault: `${JSON.stringify(keyFile)} holds the key of another certificate` };
  } catch (error) {
    const why = codeOf(error);
    const fault = `${JSON.stringify(keyFile)} holds no private key that can be read${why}; expected one in PEM form, not encrypted`;
    return { of: "keyFile", fault };
  }
}
