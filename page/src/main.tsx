// SPDX-License-Identifier: Apache-2.0
// The page: who is signed in sees the cluster, anybody else how to sign in.
import { render } from "preact";
import { useEffect } from "preact/hooks";
import "./style/base.css";
import "./style/frame.css";
import "./style/parts.css";
import "./style/pages.css";
import { startLive } from "./core/live";
import { routeStore } from "./core/route";
import { sessionStore } from "./core/session";
import { useStore } from "./core/store";
import { useLanguage } from "./texts";
import { Frame } from "./parts/frame";
import { Toasts } from "./parts/toasts";
import { Audit } from "./pages/audit";
import { Events } from "./pages/events";
import { GroupPage } from "./pages/group";
import { HealthPage } from "./pages/health";
import { HostPage } from "./pages/host";
import { Hosts } from "./pages/hosts";
import { Overview } from "./pages/overview";
import { Policies } from "./pages/policies";
import { ResyncPage } from "./pages/resync";
import { Settings } from "./pages/settings";
import { SignIn } from "./pages/sign-in";
import { Tokens } from "./pages/tokens";
import { Users } from "./pages/users";
import { VolumePage } from "./pages/volume";
import { Volumes } from "./pages/volumes";

function Shown() {
  const [page, first, second] = useStore(routeStore, (route) => route);
  switch (page) {
    case "hosts":
      return first ? <HostPage key={first} name={first} /> : <Hosts />;
    case "groups":
      return <GroupPage key={`${first}/${second}`} shard={first ?? ""} id={second ?? ""} />;
    case "volumes":
      return first ? <VolumePage key={first} name={first} /> : <Volumes />;
    case "resync":
      return <ResyncPage />;
    case "events":
      return <Events />;
    case "health":
      return <HealthPage />;
    case "policies":
      return <Policies />;
    case "tokens":
      return <Tokens />;
    case "users":
      return <Users />;
    case "audit":
      return <Audit />;
    case "settings":
      return <Settings />;
    default:
      return <Overview />;
  }
}

function SignedIn() {
  useEffect(startLive, []);
  return (
    <Frame>
      <Shown />
    </Frame>
  );
}

function Page() {
  const language = useLanguage();
  const who = useStore(sessionStore, (session) => session.who);
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  return (
    <div class="whole" key={language}>
      {who ? <SignedIn key={who.token} /> : <SignIn />}
      <Toasts />
    </div>
  );
}

const root = document.getElementById("page");
if (root) render(<Page />, root);
