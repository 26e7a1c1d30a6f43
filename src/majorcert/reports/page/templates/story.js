// One image, one placement, in numbers and in words: the twin of majorcert's reports/story.py.

const NAMED = 3;

// Names that read well in a sentence stand alone; all others, such as digits, in quotation marks.
const SPOKEN = CLASS_NAMES.map((name) => (/^[A-Za-z][A-Za-z -]*$/.test(name) ? name : `“${name}”`));

function listing(names, last) {
  return names.length < 2 ? names.join("") : names.slice(0, -1).join(", ") + ` ${last} ` + names.at(-1);
}

// The story of an ensemble with the patch at one placement, as plain data.
function sceneAt(ensemble, top, left) {
  const judged = ensemble.judge(top, left);
  const testimonies = ensemble.members.map((member, place) => ({
    name: manifest.defenders[place].name,
    label: ensemble.labels[place],
    canSay: labelsOf(judged.reaches[place]),
    ...member.tell(top, left),
  }));
  return {
    placement: [top, left],
    clean: ensemble.clean,
    safe: judged.safe,
    alert: judged.alert,
    rival: judged.rival,
    nClean: judged.nClean,
    nRival: judged.nRival,
    forced: ensemble.forced(judged),
    testimonies,
  };
}

// The labels a defender could be moved to, the rival first.
function either(scene, told) {
  const first = (label) => (label === scene.rival ? -1 : label);
  const labels = told.canSay.filter((label) => label !== scene.clean && label !== told.label);
  labels.sort((a, b) => first(a) - first(b));
  const names = labels.slice(0, NAMED).map((label) => SPOKEN[label]);
  const more = labels.length - NAMED;
  if (more > 0) names.push(`${more} other label${more > 1 ? "s" : ""}`);
  return listing(names, "or");
}

function movedClause(scene, told) {
  const others = either(scene, told);
  if (told.label === scene.clean) return `${told.name} can be made to say ${others}`;
  return `${told.name} says ${SPOKEN[told.label]} already` + (others ? ` and can be made to say ${others}` : "");
}

function forcedClause(scene) {
  const first = (label) => (label === scene.rival ? -1 : label);
  const labels = [...new Set(scene.forced)].filter((label) => label !== scene.clean);
  labels.sort((a, b) => first(a) - first(b));
  const groups = labels.map((label) => {
    const names = scene.testimonies.filter((_, place) => scene.forced[place] === label).map((told) => told.name);
    return `${listing(names, "and")} saying ${SPOKEN[label]}`;
  });
  return listing(groups, "and");
}

// What is said without all that the patch could touch, and whether that raises an alert.
function leftOf(scene) {
  const told = scene.testimonies;
  const first = (label) => (label === scene.clean ? -1 : label);
  const firm = told.filter(({ canSay }) => canSay.length === 1);
  const labels = [...new Set(firm.map(({ canSay }) => canSay[0]))].sort((a, b) => first(a) - first(b));
  const clauses = labels.map((label) => {
    const names = firm.filter(({ canSay }) => canSay[0] === label).map(({ name }) => name);
    return `${listing(names, "and")} say${names.length === 1 ? "s" : ""} ${SPOKEN[label]}`;
  });
  const unsure = told.filter(({ canSay }) => canSay.length > 1).map(({ name }) => name);
  if (unsure.length) clauses.push(`${listing(unsure, "and")} cannot tell`);
  const said = `without what the patch could touch, ${listing(clauses, "and")}`;
  const votes = told.length > 1 ? `: ${SPOKEN[scene.clean]} has ${scene.nClean} of ${told.length}` : "";
  if (scene.safe) return `No alert from here: ${said}${votes}.`;
  const rival = SPOKEN[scene.rival];
  const tie = scene.nRival === scene.nClean ? `, and the tie goes to ${rival}, the smaller label` : "";
  return `Alert: ${said}` + (votes ? `${votes}, ${rival} ${scene.nRival}${tie}.` : ".");
}

// The same of one defender, where a label that is behind by no more than the slack may be the one that is left.
function leftWithSlack(scene) {
  const [told] = scene.testimonies;
  const clean = SPOKEN[scene.clean];
  const without = `without what the patch could touch, ${told.name}`;
  if (scene.safe) return `No alert from here: ${without} says ${clean}, whichever label is given ${SLACK} more.`;
  if (scene.alert) return `Alert: ${without} does not say ${clean}, even if that is given ${SLACK} more.`;
  const others = `${clean} if that is given ${SLACK} more, and ${either(scene, told)} if that is`;
  return `No alert from here, and no proof: ${without} says ${others}.`;
}

function sentenceOf(scene) {
  if (DETECTION) return SLACK ? leftWithSlack(scene) : leftOf(scene);
  const told = scene.testimonies;
  const clean = SPOKEN[scene.clean];
  const rival = SPOKEN[scene.rival];
  const tied = scene.nRival === scene.nClean;
  if (told.length === 1)
    return scene.safe
      ? `Safe here: ${told[0].name} cannot be moved from ${clean}.`
      : `Not safe here: ${told[0].name} can be made to say ${either(scene, told[0])}.`;
  if (!scene.safe) {
    const tie = tied ? `, and the tie goes to ${rival}, the smaller label` : "";
    const votes = `${rival} has ${scene.nRival} of ${told.length} votes and ${clean} has ${scene.nClean}`;
    return `Not safe here: with ${forcedClause(scene)}, ${votes}${tie}.`;
  }
  if (scene.nClean === told.length) return `Safe here: every defender says ${clean} and none can be moved.`;
  const firm = (one) => one.canSay.length === 1 && one.canSay[0] === scene.clean;
  const unmoved = told.filter(firm).map((one) => one.name);
  const clauses = told.filter((one) => !firm(one)).map((one) => movedClause(scene, one));
  const tie = tied ? " and loses the tie, being the larger label" : "";
  const keeps = `${clean} keeps ${scene.nClean} of ${told.length}, ${rival} gets at most ${scene.nRival}${tie}`;
  return `Safe here: ${clauses.join("; ")}; ${listing(unmoved, "and")} cannot be moved: ${keeps}.`;
}

// A line for each mask that covers the patch: what breaks its row.
function rowSentences(told) {
  const clean = SPOKEN[told.label];
  return told.rows.map(({ mask, nSeconds, dissent, nUnseen }) => {
    if (!dissent.length) return `mask at ${mask}: ${clean} under every second mask`;
    const where = (second) => (String(second) === String(mask) ? "alone" : `with ${second}`);
    const few = dissent.slice(0, NAMED).map(({ second, label }) => `${SPOKEN[label]} ${where(second)}`);
    if (dissent.length > NAMED) few.push(`${dissent.length - NAMED} more`);
    const unseen = nUnseen ? `; under ${nUnseen} nobody looked` : "";
    return `mask at ${mask}: not ${clean} under ${dissent.length} of ${nSeconds} second masks (${few.join("; ")})${unseen}`;
  });
}

// Quoted names keep their own direction of writing (Unicode's first strong isolate) and do not turn the sentence round.
function isolated(sentence) {
  return sentence.replace(/“[^”]*”/g, "\u2068$&\u2069");
}
