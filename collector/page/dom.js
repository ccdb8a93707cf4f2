// Elements from code. Text from a log only ever becomes text: it is never parsed as HTML.

/** h('p', {class: 'x', onclick: f}, 'text', child …). False and null children are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
}

/** Buttons of which one is pressed; arrow keys move between them. */
export function choice(label, options, chosen, onchoose) {
  const group = h('div', {class: 'choice', role: 'radiogroup', 'aria-label': label});
  const buttons = options.map(({value, text, title}) => h('button', {
    type: 'button', role: 'radio', title,
    'data-value': value,
    onclick: () => select(value),
    onkeydown: (event) => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      const at = options.findIndex((option) => option.value === value);
      const next = options[(at + step + options.length) % options.length].value;
      select(next);
      buttons[options.findIndex((option) => option.value === next)].focus();
    },
  }, text));
  const mark = (value) => buttons.forEach((button, i) => {
    const on = options[i].value === value;
    button.setAttribute('aria-checked', String(on));
    button.tabIndex = on ? 0 : -1;
  });
  const select = (value) => {
    mark(value);
    onchoose(value);
  };
  mark(chosen);
  group.append(...buttons);
  group.mark = mark;
  return group;
}
