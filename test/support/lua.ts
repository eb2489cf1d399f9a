/* oxlint-disable typescript/no-unsafe-type-assertion, typescript/switch-exhaustiveness-check, complexity -- values of a script have no types here */
/**
 * Runs a Lua script of Redis in this process, so that thousands of histories a minute test the very script: it is
 * translated to JavaScript. It knows the part of Lua 5.1 that the scripts use, and throws where Lua would.
 * `test/unit/ratelimit/lua-stand-in.test.ts` compares it with Redis.
 */
import luaparse from "luaparse";

/** What a script can call. `undefined` is Lua's nil. */
interface LuaHost {
  readonly call: (command: string, ...args: string[]) => unknown;
}

/** A Lua table; lists begin at 1. */
type Table = Record<string | number, unknown>;

class Several extends Array<unknown> {}

export type LuaScript = (host: LuaHost, keys: readonly string[], args: readonly string[]) => unknown;

export function compileLua(text: string): LuaScript {
  const tree = luaparse.parse(text, { luaVersion: "5.1", locations: true, encodingMode: "pseudo-latin1" });
  const body = block(tree.body);
  // oxlint-disable-next-line no-new-func, typescript/no-implied-eval -- the translated script
  const run = new Function("$", "KEYS", "ARGV", "redis", "cjson", "string", "math", "tonumber", "type", body);
  return (host, keys, args) =>
    run(RUNTIME, tableOf(keys), tableOf(args), redisOf(host), CJSON, STRING, MATH, toNumber, typeOf);
}

// What translated code uses.

const RUNTIME = {
  one: (value: unknown): unknown => (value instanceof Several ? value[0] : value),
  several: (...values: unknown[]) => Several.from(values),
  all: (value: unknown): unknown[] => (value instanceof Several ? value : [value]),
  is: (value: unknown): boolean => value !== undefined && value !== false,
  number(value: unknown): number {
    if (typeof value !== "number") throw new TypeError(`arithmetic on a ${typeof value}`);
    return value;
  },
  compare(a: unknown, b: unknown): number {
    if (typeof a !== typeof b || (typeof a !== "number" && typeof a !== "string"))
      throw new TypeError(`a ${typeof a} is compared with a ${typeof b}`);
    return a < (b as typeof a) ? -1 : Number(a > (b as typeof a));
  },
  text(value: unknown): string {
    if (typeof value !== "string" && typeof value !== "number")
      throw new TypeError(`a ${typeof value} in a text`);
    return String(value);
  },
  at(table: unknown, key: unknown): unknown {
    if (typeof table !== "object" || table === null)
      throw new TypeError(`index ${String(key)} of a ${typeof table}`);
    return (table as Table)[key as string];
  },
  put(table: unknown, key: unknown, value: unknown): void {
    if (key === undefined) throw new TypeError("table index is nil");
    if (value === undefined) delete (table as Table)[key as string];
    else (table as Table)[key as string] = value;
  },
  table(entries: readonly (readonly [string | number, unknown])[]): Table {
    const table: Table = {};
    for (const [key, value] of entries) if (value !== undefined) table[key] = value;
    return table;
  },
  length(value: unknown): number {
    if (typeof value === "string") return value.length;
    let length = 0;
    while ((value as Table)[length + 1] !== undefined) length++;
    return length;
  },
  *ipairs(table: Table): Iterable<[number, unknown]> {
    for (let index = 1; table[index] !== undefined; index++) yield [index, table[index]];
  },
  pairs: (table: Table): Iterable<[unknown, unknown]> =>
    Object.entries(table).map(([key, value]) => [/^\d+$/.test(key) ? Number(key) : key, value]),
};

function tableOf(list: readonly unknown[]): Table {
  const table: Table = {};
  for (let index = 0; index < list.length; index++) table[index + 1] = list[index];
  return table;
}

function redisOf({ call }: LuaHost): Table {
  const run = (...args: unknown[]): unknown => {
    for (const arg of args)
      if (typeof arg !== "string" && typeof arg !== "number")
        throw new TypeError("a command takes texts and numbers");
    return toLua(call(...(args.map(String) as [string, ...string[]])));
  };
  return { call: run, pcall: run, error_reply: (text: unknown) => ({ err: text }) };
}

function toLua(value: unknown): unknown {
  if (value === undefined || value === null) return false;
  return Array.isArray(value) ? tableOf(value.map(toLua)) : value;
}

const CJSON = {
  decode: (text: unknown) => decoded(JSON.parse(RUNTIME.text(text))),
  encode: (value: unknown) => encoded(value),
};

function decoded(value: unknown): unknown {
  if (value === null) throw new TypeError("null is no nil in Lua");
  if (typeof value !== "object") return value;
  if (Array.isArray(value)) return tableOf(value.map(decoded));
  // It has just been parsed, so it is not shared.
  const table = value as Table;
  for (const key in table) {
    const one = table[key];
    if (typeof one === "object") table[key] = decoded(one);
  }
  return table;
}

function encoded(value: unknown): string {
  // Redis' encoder writes 14 digits.
  if (typeof value === "number")
    return String(Number.isSafeInteger(value) ? value : Number(value.toPrecision(14)));
  if (typeof value === "string") return quoted(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const table = value as Table;
  let text = "";
  if (table[1] !== undefined) {
    for (let index = 1; table[index] !== undefined; index++)
      text += `${index > 1 ? "," : ""}${encoded(table[index])}`;
    return `[${text}]`;
  }
  for (const key in table) text += `${text === "" ? "" : ","}"${key}":${encoded(table[key])}`;
  return `{${text}}`;
}

const PLAIN = /^[\w.:@-]*$/;
/** Most texts need no escapes. */
const quoted = (text: string): string => (PLAIN.test(text) ? `"${text}"` : JSON.stringify(text));

const STRING = {
  format(form: string, value: unknown): string {
    if (form !== "%.0f") throw new TypeError(`unknown format ${form}`);
    // `toFixed` is slow, and most numbers are whole.
    return Number.isSafeInteger(value) ? String(value) : RUNTIME.number(value).toFixed(0);
  },
  match(text: string, pattern: string): string | undefined {
    const found = new RegExp(pattern.replaceAll("%w", "[A-Za-z0-9]").replaceAll("%d", "[0-9]")).exec(text);
    return found?.[1] ?? found?.[0];
  },
};

const MATH = { floor: Math.floor, ceil: Math.ceil, max: Math.max, min: Math.min };

function toNumber(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && !Number.isNaN(number) ? number : undefined;
}

function typeOf(value: unknown): string {
  if (value === undefined) return "nil";
  return typeof value === "object" ? "table" : typeof value;
}

// The translation.

type Node = luaparse.Expression | luaparse.Statement;

const block = (nodes: readonly luaparse.Statement[]): string => nodes.map(statement).join("\n");

function statement(node: luaparse.Statement): string {
  switch (node.type) {
    case "LocalStatement":
      return `let ${bind(node.variables.map(name), node.init)};`;
    case "AssignmentStatement":
      return assignment(node);
    case "FunctionDeclaration":
      return `${node.isLocal ? "const " : ""}${name(node.identifier)} = ${functionOf(node)};`;
    case "ReturnStatement":
      return `return ${returned(node.arguments)};`;
    case "CallStatement":
      return `${expression(node.expression)};`;
    case "IfStatement":
      return node.clauses
        .map((clause, index) => {
          const head = clause.type === "ElseClause" ? "" : `if (${truth(clause.condition)}) `;
          return `${index > 0 ? "else " : ""}${head}{ ${block(clause.body)} }`;
        })
        .join(" ");
    case "ForNumericStatement": {
      const variable = name(node.variable);
      const step = node.step === null ? "1" : value(node.step);
      return `for (let ${variable} = ${value(node.start)}, $end = ${value(node.end)}; ${variable} <= $end; ${variable} += ${step}) { ${block(node.body)} }`;
    }
    case "ForGenericStatement":
      return `for (let [${node.variables.map(name).join(", ")}] of ${expression(node.iterators[0])}) { ${block(node.body)} }`;
    default:
      throw new SyntaxError(`Lua's ${node.type} is not known here`);
  }
}

function bind(names: readonly string[], values: readonly luaparse.Expression[]): string {
  const [only] = values;
  if (names.length > 1 && values.length === 1 && only?.type === "CallExpression")
    return `[${names.join(", ")}] = $.all(${expression(only)})`;
  if (names.length === 1) return `${names[0]} = ${only === undefined ? "undefined" : value(only)}`;
  return `[${names.join(", ")}] = [${values.map(value).join(", ")}]`;
}

function assignment({ variables, init }: luaparse.AssignmentStatement): string {
  const values = init.map((one, index) => `const $${index} = ${value(one)};`);
  const stores = variables.map((target, index) => {
    if (target.type === "Identifier") return `${name(target)} = $${index};`;
    return `$.put(${value(target.base)}, ${keyOf(target)}, $${index});`;
  });
  return `{ ${values.join(" ")} ${stores.join(" ")} }`;
}

function keyOf(node: luaparse.MemberExpression | luaparse.IndexExpression): string {
  return node.type === "MemberExpression" ? JSON.stringify(node.identifier.name) : value(node.index);
}

function returned(values: readonly luaparse.Expression[]): string {
  if (values.length > 1) return `$.several(${values.map(value).join(", ")})`;
  return values[0] === undefined ? "undefined" : expression(values[0]);
}

function functionOf(node: luaparse.FunctionDeclaration): string {
  const parameters = node.parameters.map((one) => name(one as luaparse.Identifier));
  return `(${parameters.join(", ")}) => { ${block(node.body)} }`;
}

function name(node: Node | null): string {
  if (node?.type !== "Identifier") throw new SyntaxError("a name was expected");
  return node.name === "_" ? `$_${node.loc?.start.line ?? ""}` : node.name;
}

const truth = (node: luaparse.Expression): string => `$.is(${value(node)})`;

/** An expression as one value. */
function value(node: luaparse.Expression): string {
  return node.type === "CallExpression" ? `$.one(${expression(node)})` : expression(node);
}

function expression(node: luaparse.Expression | undefined): string {
  switch (node?.type) {
    case "Identifier":
      return name(node);
    case "StringLiteral":
      return JSON.stringify(node.value);
    case "NumericLiteral":
    case "BooleanLiteral":
      return String(node.value);
    case "NilLiteral":
      return "undefined";
    case "MemberExpression":
    case "IndexExpression":
      return `$.at(${value(node.base)}, ${keyOf(node)})`;
    case "CallExpression":
      return callOf(node);
    case "FunctionDeclaration":
      return functionOf(node);
    case "LogicalExpression":
      return node.operator === "and"
        ? `(($v) => ($.is($v) ? ${value(node.right)} : $v))(${value(node.left)})`
        : `(($v) => ($.is($v) ? $v : ${value(node.right)}))(${value(node.left)})`;
    case "UnaryExpression":
      return unary(node);
    case "BinaryExpression":
      return binary(node);
    case "TableConstructorExpression":
      return tableLiteral(node);
    default:
      throw new SyntaxError(`Lua's ${node?.type} is not known here`);
  }
}

function callOf(node: luaparse.CallExpression): string {
  const args = node.arguments.map(value).join(", ");
  if (node.base.type === "Identifier" && ["ipairs", "pairs"].includes(node.base.name))
    return `$.${node.base.name}(${args})`;
  if (node.base.type !== "MemberExpression") return `${value(node.base)}(${args})`;
  return `${value(node.base.base)}.${node.base.identifier.name}(${args})`;
}

function unary(node: luaparse.UnaryExpression): string {
  if (node.operator === "not") return `!${truth(node.argument)}`;
  if (node.operator === "#") return `$.length(${value(node.argument)})`;
  return `-$.number(${value(node.argument)})`;
}

function binary(node: luaparse.BinaryExpression): string {
  const [left, right] = [value(node.left), value(node.right)];
  switch (node.operator) {
    case "==":
      return `(${left} === ${right})`;
    case "~=":
      return `(${left} !== ${right})`;
    case "..":
      return `($.text(${left}) + $.text(${right}))`;
    case "<":
    case ">":
    case "<=":
    case ">=":
      return `($.compare(${left}, ${right}) ${node.operator} 0)`;
    default:
      return `($.number(${left}) ${node.operator} $.number(${right}))`;
  }
}

function tableLiteral({ fields }: luaparse.TableConstructorExpression): string {
  let index = 0;
  const entries = fields.map((field) => {
    if (field.type === "TableKeyString") return `[${JSON.stringify(field.key.name)}, ${value(field.value)}]`;
    if (field.type === "TableKey") return `[${value(field.key)}, ${value(field.value)}]`;
    return `[${++index}, ${value(field.value)}]`;
  });
  return `$.table([${entries.join(", ")}])`;
}
