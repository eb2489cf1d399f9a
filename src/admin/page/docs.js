/* global SwaggerUIBundle */
// Shows one of the two documents. The admin token stays in this page's memory.
const ofCallers = new URLSearchParams(location.search).get("of") === "callers";
const address = ofCallers ? "docs/callers.json" : "openapi.json";
const form = document.querySelector("#login");
const message = document.querySelector("#message");
let token = "";

const withToken = () => (token === "" ? {} : { Authorization: `Bearer ${token}` });

async function show() {
  const response = await fetch(address, { headers: withToken() });
  if (response.status === 401) {
    form.hidden = false;
    message.textContent = token === "" ? "" : "This token is wrong.";
    return;
  }
  form.hidden = true;
  const spec = await response.json();
  // The browser does not let this page send requests to the callers' port, which has another address.
  if (ofCallers) spec.servers = [{ url: new URL("docs/try", location.href).pathname }];
  SwaggerUIBundle({
    spec,
    dom_id: "#document",
    supportedSubmitMethods: ["get", "post"],
    requestInterceptor: (request) => ({ ...request, headers: { ...request.headers, ...withToken() } }),
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  token = document.querySelector("#token").value;
  void show();
});
void show();
