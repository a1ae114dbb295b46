"use strict";
/* The page of a population: the best member, scores and options by generation, who descends from whom. */

const POPULATION = JSON.parse(element("data").textContent);
const LAST = POPULATION.generations.length;
const NUMBER = POPULATION.generations[0].length;

/** A member's colour, by its number. */
function toneOfMember(number) {
  return number === POPULATION.line[POPULATION.line.length - 1] ? TONE_OF.best : lineColour([0, 1, 2, 4, 5, 6, 7, 8, 9][number % 9]);
}

function isInLine(generation, member) {
  return POPULATION.line[generation - 1] === member.number;
}

function originOf(member) {
  return member.parent === member.number ? member.how : `${member.how} from ${member.parent}`;
}

function textOf(generation, member) {
  const options = Object.entries(member.params).map(([name, value]) => `${name}=${value}`);
  const score = member.score === null ? "-" : numberText(member.score);
  return [`generation ${generation}, member ${member.number}: ${originOf(member)}`, `${POPULATION.objective} ${score}`, ...options].join("\n");
}

/** Every member by generation, joined to the one whose weights it has; `read` is the value, null if unknown. */
function byGeneration(title, unit, up, read) {
  const lines = [];
  const best = [];
  const points = [];
  POPULATION.generations.forEach((members, index) => members.forEach((member) => {
    const value = read(member);
    if (value === null) return;
    const generation = index + 1;
    points.push({ x: generation, y: value, colour: toneOfMember(member.number), hollow: !isInLine(generation, member), text: textOf(generation, member) });
    const before = index ? read(POPULATION.generations[index - 1][member.parent]) : null;
    if (before === null) return;
    const ends = [[index, before], [generation, value]];
    if (isInLine(generation, member)) best.push(lineThrough(ends, TONE_OF.best, 2.4));
    else lines.push(lineThrough(ends, fainter(toneOfMember(member.parent)), 1.1));
  }));
  const choices = POPULATION.generations.map((_, index) => index + 1);
  const across = { label: "generation", ...(LAST > 8 ? { low: 1, high: LAST } : { choices }) };
  return { title, unit, across, up, lines: [...lines, ...best], points };
}

function scores() {
  return byGeneration(`${POPULATION.objective} by generation`, POPULATION.objective, null, (member) => member.score);
}

function option(dimension) {
  const read = (member) => (dimension.choices ? member.params[dimension.name] : Number(member.params[dimension.name]));
  return byGeneration(dimension.name, "", dimension, read);
}

/** A table of members, the last generation first. */
function membersTable(members) {
  const names = POPULATION.dimensions.map((dimension) => dimension.name);
  const rows = members.map(([generation, member]) => [
    String(generation),
    String(member.number),
    member.state ? `${originOf(member)}; ${member.state}` : originOf(member),
    member.score === null ? "-" : numberText(member.score),
    ...names.map((name) => member.params[name]),
  ]);
  const last = names.map((name) => name.replace(/^agent\./, ""));
  return tableOf("runs", ["generation", "member", "origin", POPULATION.objective, ...last], rows);
}

function start() {
  const main = begun(POPULATION);
  if (POPULATION.line.length) {
    const best = POPULATION.line[POPULATION.line.length - 1];
    const commands = POPULATION.commands.map((line) => made("pre", "command", line));
    main.append(section("Go on with the best member", `Member ${best}: ${POPULATION.run}`, ...commands));
    const line = POPULATION.line.map((number, index) => [index + 1, POPULATION.generations[index][number]]);
    main.append(section("Options of the best member", "The members it descends from, and the options of each generation.", membersTable(line)));
  }
  const text = `${NUMBER} members. A line leads from a member to the one that has its weights; the thick one ends in the best member.`;
  main.append(section("Scores", text, made("div", "cards", card(scores()))));
  main.append(section("Options", "", made("div", "cards", ...POPULATION.dimensions.map((dimension) => card(option(dimension))))));
  const all = POPULATION.generations.flatMap((members, index) => members.map((member) => [index + 1, member])).reverse();
  main.append(section("Lineage", "", membersTable(all)));
}

start();
