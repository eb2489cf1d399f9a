import {parseSync} from "oxc-parser"; import fs from "node:fs";
const f="test/unit/import-rules.test.ts"; let s=fs.readFileSync(f,"utf8");
const {program}=parseSync(f,s);
const get=n=>program.body.find(x=>x.type==="VariableDeclaration"&&x.declarations[0].id.name===n);
const o=get("OFFENDERS"), rows=o.declarations[0].init.elements.map(e=>e.elements.map(x=>x.value));
const simple=[],other=[];
for(const r of rows){const m=/^export \* from "(.*)";$/.exec(r[1]); if(m&&r[2]===`'${m[1]}' import is restricted`)simple.push([r[0],m[1]]);else other.push(r)}
console.error(simple.length,other);
const txt=`/** Files, and what each may not import. */
const RESTRICTED = \`
${simple.map(([a,b])=>`  ${a} ${b}`).join("\n")}\`;

/** A file that breaks a rule, and a part of the expected message. */
const OFFENDERS: readonly [file: string, code: string, message: string][] = [
  ...[...RESTRICTED.matchAll(/(\\S+) (\\S+)$/gm)].map(([, file = "", name = ""]): [string, string, string] => [
    file,
    \`export * from "\${name}";\`,
    \`'\${name}' import is restricted\`,
  ]),
${other.map(r=>"  "+JSON.stringify(r)+",").join("\n")}
];`;
s=s.slice(0,s.lastIndexOf("/**",o.start))+txt+s.slice(o.end);
fs.writeFileSync(f,s);
