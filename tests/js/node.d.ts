// The little that these tests use of Node, so that their types are checked without a package.
declare module "node:test" {
  export function test(name: string, run: () => unknown): void;
}
declare module "node:assert/strict" {
  const assert: {
    (value: unknown, message?: string): asserts value;
    deepEqual(found: unknown, wanted: unknown, message?: string): void;
    equal(found: unknown, wanted: unknown, message?: string): void;
    ok(value: unknown, message?: string): void;
    throws(act: () => unknown, wanted: RegExp): void;
  };
  export default assert;
}
