// Asks the search of the built site: `node website/ask_search.js SITE < questions.json`.
//
// It runs the site's own worker, so that the order is the one that a reader sees. It reads a list of
// questions and writes, for each, the pages that were found, best first.
"use strict"

const fs = require("fs")
const path = require("path")
const vm = require("vm")

const site = process.argv[2]
const workers = path.join(site, "assets/javascripts/workers")
const name = fs.readdirSync(workers).find((one) => /^search\..*\.js$/.test(one))
const answers = []
let receive = null

const worker = vm.createContext({
  console,
  addEventListener: (type, listener) => { receive = listener },
  postMessage: (message) => answers.push(message),
})
worker.self = worker
vm.runInContext(fs.readFileSync(path.join(workers, name), "utf8"), worker)

async function send(type, data) {
  const before = answers.length
  receive({ data: { type, data } })
  while (answers.length === before) await new Promise(setImmediate)
  return answers[before].data
}

async function main() {
  const index = JSON.parse(fs.readFileSync(path.join(site, "search/search_index.json"), "utf8"))
  const questions = JSON.parse(fs.readFileSync(0, "utf8"))
  await send(0, { ...index, options: { suggest: false } })
  const pages = []
  for (const question of questions) {
    const { items } = await send(2, question)
    pages.push(items.map((sections) => sections[0].location.split("#")[0]))
  }
  process.stdout.write(JSON.stringify(pages))
}

main()
